package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// CRIU trusts what it remembers. What somebody else may have written is not used.
func TestRememberOnlyInOwnDirectories(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("needs a tmpfs on /dev/shm")
	}
	for name, spoil := range map[string]func(dir string) error{
		"":          func(string) error { return nil },
		"is there":  func(dir string) error { return os.MkdirAll(dir+"/"+forDumps, 0o700) },
		"writable":  func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
		"a link":    func(dir string) error { return os.Symlink(filepath.Dir(dir), dir) },
		"a file":    func(dir string) error { return os.WriteFile(dir, nil, 0o700) },
		"below it":  func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Symlink("/tmp", dir+"/"+forDumps)) },
		"another's": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 4242, 4242)) },
	} {
		if name == "another's" && os.Geteuid() != 0 {
			continue
		}
		place, err := os.MkdirTemp("/dev/shm", "gleaner-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(place)
		if err := spoil(filepath.Join(place, "gleaner-criu")); err != nil {
			t.Fatal(err)
		}
		dir, ok := rememberIn(place, forDumps)
		if want := name == "" || name == "is there"; ok != want || ok && dir != place+"/gleaner-criu/"+forDumps {
			t.Errorf("%q: %q, %v", name, dir, ok)
		}
	}
	if dir, ok := rememberIn(t.TempDir(), forDumps); ok {
		var fs unix.Statfs_t
		if err := unix.Statfs(filepath.Dir(dir), &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
			t.Errorf("%s is used, which outlives the kernel", dir)
		}
	}
}

// The variable of whoever started this process leads CRIU nowhere.
func TestOwnRuntimeDirectoryIsNotUsed(t *testing.T) {
	defer func(before []string) { memoryPlaces = before }(memoryPlaces)
	memoryPlaces = nil
	if got := withMemory([]string{"A=b", runtimeVariable + "=/home/ann", "C=d"}, forRestores); !slices.Equal(got, []string{"A=b", "C=d"}) {
		t.Errorf("CRIU gets %q", got)
	}
}
