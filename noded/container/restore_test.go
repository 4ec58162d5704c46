package container

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A script that counts continues in another container, under another
// id and control group, where it was frozen.
func TestMoveCounter(t *testing.T) {
	b := newBed(t)
	s := b.start()
	enough := filepath.Join(b.home(), "enough")
	s.must(order{Do: "start", Script: "#!/bin/bash\nuntil [ -e " + enough + " ]; do echo $((++i)); sleep 0.1; done\nexit 7\n"})
	eventually(t, "it counts", func() bool { return strings.Contains(b.read(), "\n3\n") })
	s = s.move()
	moved := strings.Count(b.read(), "\n")
	eventually(t, "it continues", func() bool { return strings.Count(b.read(), "\n") > moved+3 })
	must(t, os.WriteFile(enough, nil, 0o644))
	r := s.must(order{Do: "wait"})
	if r.Code != 7 {
		t.Errorf("it ended with %d, signal %d", r.Code, r.Signal)
	}
	var want strings.Builder
	for i := range strings.Count(b.read(), "\n") {
		fmt.Fprintln(&want, i+1)
	}
	if b.read() != want.String() {
		t.Errorf("it printed %q", b.read())
	}
}

// What is bound into a container may lie on a file system that is mounted otherwise
// than the one it lay on when the image was made: when times of access are written,
// and what is forbidden there. It stays forbidden.
func TestMoveOverMountFlags(t *testing.T) {
	for _, here := range []struct {
		flags uintptr
		said  string
	}{
		{unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_NODEV | unix.MS_NOEXEC, "nosuid,nodev,noexec,noatime,nodiratime"},
		{unix.MS_STRICTATIME | unix.MS_NODEV, "nosuid,nodev"},
	} {
		t.Run(here.said, func(t *testing.T) { moveOverMountFlags(t, here.flags, here.said) })
	}
}

func moveOverMountFlags(t *testing.T, flags uintptr, said string) {
	b := newBed(t)
	images, home := b.image(""), b.home()
	must(t, unix.Mount(images, images, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(images, unix.MNT_DETACH)) })
	must(t, unix.Mount("", images, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOATIME, ""))
	s := b.start()
	s.must(order{Do: "start", Script: "#!/bin/bash\nfor i in $(seq 1 100); do echo $i; sleep 0.02; done\ngrep " + home + " /proc/self/mountinfo\n"})
	eventually(t, "it counts", func() bool { return strings.Contains(b.read(), "\n10\n") })
	must(t, unix.Mount(home, home, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(home, unix.MNT_DETACH)) })
	must(t, unix.Mount("", home, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""))
	s = s.move()
	mounted := regexp.MustCompile(` rw,` + said + `(,idmapped)? - `)
	if r := s.must(order{Do: "wait"}); r.Code != 0 || !strings.Contains(b.read(), "\n99\n100\n") || !mounted.MatchString(b.read()) {
		t.Errorf("it ended with %d, signal %d, and printed %q", r.Code, r.Signal, b.read())
	}
}
