package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// user is a person the stories are about.
type user struct {
	name string
	id   int
}

// alice and bob share the group "lab"; alice alone is in "shared".
var users = []user{{"alice", 4242}, {"bob", 4250}}

const (
	labGroup    = 4243
	sharedGroup = 4244
)

// makeUsers puts the test's own /home, /etc/passwd and /etc/group in place, in
// this process's mount namespace. The files lie in directory.
func makeUsers(directory string) error {
	if err := syscall.Mount("tmpfs", "/home", "tmpfs", syscall.MS_NOSUID, "mode=755"); err != nil {
		return fmt.Errorf("mount /home: %w", err)
	}
	var passwd, group strings.Builder
	for _, u := range users {
		fmt.Fprintf(&passwd, "%s:x:%d:%d::/home/%s:/bin/bash\n", u.name, u.id, u.id, u.name)
		fmt.Fprintf(&group, "%s:x:%d:\n", u.name, u.id)
		home := filepath.Join("/home", u.name)
		if err := os.Mkdir(home, 0o700); err != nil {
			return err
		}
		if err := os.Chown(home, u.id, u.id); err != nil {
			return err
		}
	}
	fmt.Fprintf(&group, "lab:x:%d:alice,bob\nshared:x:%d:alice\n", labGroup, sharedGroup)
	if err := appendMounted(directory, "/etc/passwd", passwd.String()); err != nil {
		return err
	}
	return appendMounted(directory, "/etc/group", group.String())
}

// appendMounted mounts a copy of the file, with more text, over it. The copy
// lies in directory.
func appendMounted(directory, path, more string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	copied := filepath.Join(directory, filepath.Base(path))
	if err := os.WriteFile(copied, []byte(string(text)+more), 0o644); err != nil {
		return err
	}
	if err := syscall.Mount(copied, path, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}
