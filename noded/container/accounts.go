package container

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxAccountBytes bounds how much of /etc/passwd is read.
const maxAccountBytes = 16 << 20

// accountFiles makes copies of /etc/passwd and /etc/group with the user and
// the user's group added, where the root's files, which read answers, lack them because
// its accounts live in a directory service. It answers the copies by target.
func accountFiles(spec *Spec, read func(path string) ([]byte, error)) (map[string]string, error) {
	u := spec.User
	result := map[string]string{}
	for _, f := range []struct {
		target string
		id     uint32
		line   string
	}{
		{"/etc/passwd", u.UID, fmt.Sprintf("%s:x:%d:%d::%s:%s", field(u.Name, "user", u.UID), u.UID, u.GID, field(u.Home, "/", 0), field(u.Shell, "/bin/sh", 0))},
		{"/etc/group", u.GID, fmt.Sprintf("%s:x:%d:", field(u.Group, "group", u.GID), u.GID)},
	} {
		path := filepath.Join(spec.Dir, filepath.Base(f.target))
		made, err := addAccount(read, f.target, path, f.id, f.line)
		if err != nil {
			return nil, fmt.Errorf("supply %s: %w", f.target, err)
		}
		if made {
			result[f.target] = path
		}
	}
	return result, nil
}

// field answers text if it can be in a line of /etc/passwd, or the
// fallback, followed by the id unless that is 0.
func field(text, fallback string, id uint32) string {
	if text != "" && !strings.ContainsAny(text, ":\n\x00") {
		return text
	}
	if id == 0 {
		return fallback
	}
	return fallback + strconv.FormatUint(uint64(id), 10)
}

// readAccounts reads a file of /etc, or nothing where there is none.
func readAccounts(path string) ([]byte, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxAccountBytes))
}

// addAccount copies source to target with line added, unless source has the
// id in its third column.
func addAccount(read func(path string) ([]byte, error), source, target string, id uint32, line string) (bool, error) {
	content, err := read(source)
	if err != nil {
		return false, err
	}
	want := strconv.FormatUint(uint64(id), 10)
	for lines := bufio.NewScanner(strings.NewReader(string(content))); lines.Scan(); {
		if columns := strings.Split(lines.Text(), ":"); len(columns) > 2 && columns[2] == want {
			return false, nil
		}
	}
	if n := len(content); n > 0 && content[n-1] != '\n' {
		content = append(content, '\n')
	}
	content = append(content, line+"\n"...)
	if err := os.WriteFile(target, content, 0o644); err != nil {
		return false, err
	}
	return true, os.Chmod(target, 0o644)
}
