package userpath

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenat2AmongRenames: while somebody does nothing but rename files, a path through
// a link that leads upwards is found all the same.
func TestOpenat2AmongRenames(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin/slurm"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, link := range [][2]string{{"../gleaner", "bin/slurm/sprio"}, {"..", "bin/up"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/gleaner"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(top)

	var over atomic.Bool
	renamed := make(chan error, 1)
	other := t.TempDir()
	go func() {
		names := [2]string{filepath.Join(other, "a"), filepath.Join(other, "b")}
		err := os.WriteFile(names[0], nil, 0o600)
		for i := 0; err == nil && !over.Load(); i++ {
			err = unix.Rename(names[i%2], names[1-i%2])
		}
		renamed <- err
	}()
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	met := 0
	for try := 0; try < 2_000; try++ {
		if fd, err := unix.Openat2(top, "bin/slurm/sprio", &how); err == nil {
			unix.Close(fd)
		} else if err == unix.EAGAIN {
			met++
		}
		for _, path := range []string{"bin/slurm/sprio", "bin/up/bin/up/bin/slurm/sprio"} {
			fd, err := Openat2(top, path, how)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			unix.Close(fd)
		}
	}
	over.Store(true)
	if err := <-renamed; err != nil {
		t.Fatal(err)
	}
	t.Logf("openat2 itself was refused %d times of 2,000", met)
}
