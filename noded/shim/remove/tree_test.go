package remove

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A tree with every kind of entry goes away, and nothing that its links name.
func TestRemoveTree(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	must(t, os.Mkdir(outside, 0o700))
	must(t, os.WriteFile(filepath.Join(outside, "file"), nil, 0o600))
	top := filepath.Join(dir, "top")
	must(t, os.MkdirAll(filepath.Join(top, "a/b"), 0o700))
	must(t, os.Symlink(outside, filepath.Join(top, "a/link")))
	must(t, os.Symlink("/nonexistent", filepath.Join(top, "dangling")))
	must(t, unix.Mkfifo(filepath.Join(top, "a/b/fifo"), 0o600))
	must(t, os.WriteFile(filepath.Join(top, "a/b/.hidden"), nil, 0))
	for range 2 {
		must(t, Tree(top))
	}
	if _, err := os.Lstat(top); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "file")); err != nil {
		t.Errorf("a file behind a link: %v", err)
	}
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	must(t, Tree(filepath.Join(dir, "link")))
	if _, err := os.Lstat(filepath.Join(outside, "file")); err != nil {
		t.Errorf("a file behind a link: %v", err)
	}
}

// No depth exhausts descriptors.
func TestRemoveDeepTree(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it takes long, and shows the race detector nothing new")
	}
	top := filepath.Join(t.TempDir(), "top")
	must(t, os.Mkdir(top, 0o700))
	dir, err := unix.Open(top, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range 3000 {
		must(t, unix.Mkdirat(dir, "d", 0o700))
		next, err := unix.Openat(dir, "d", unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		must(t, err)
		unix.Close(dir)
		dir = next
	}
	unix.Close(dir)
	must(t, Tree(top))
	if _, err := os.Lstat(top); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

// Where a host directory is still mounted below, its files survive, and what
// could not be removed is said.
func TestRemoveTreeKeepsMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: mounts")
	}
	dir := t.TempDir()
	host := filepath.Join(dir, "host")
	must(t, os.Mkdir(host, 0o755))
	precious := filepath.Join(host, "precious")
	must(t, os.WriteFile(precious, []byte("data"), 0o644))
	top := filepath.Join(dir, "top")
	must(t, os.MkdirAll(filepath.Join(top, "a/mounted"), 0o755))
	must(t, os.WriteFile(filepath.Join(top, "a/file"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(top, "mountedfile"), nil, 0o644))
	bind := func(from, to string) {
		must(t, unix.Mount(from, to, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) })
	}
	bind(host, filepath.Join(top, "a/mounted"))
	bind(precious, filepath.Join(top, "mountedfile"))

	err := Tree(top)
	if !errors.Is(err, ErrLeftOver) || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("removal over a mount: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(top, "a/file")); err == nil {
		t.Error("what could be removed is left")
	}
	if data, err := os.ReadFile(precious); err != nil || string(data) != "data" {
		t.Fatalf("the host's file: %q, %v", data, err)
	}
	must(t, unix.Unmount(filepath.Join(top, "a/mounted"), 0))
	must(t, unix.Unmount(filepath.Join(top, "mountedfile"), 0))
	must(t, Tree(top))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
