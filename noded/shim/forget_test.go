package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
)

// An allocation in whose directory something is mounted is not forgotten, and tried
// again.
func TestForgetWithMount(t *testing.T) {
	b := newBed(t)
	host := filepath.Join(b.dir, "host")
	must(t, os.Mkdir(host, 0o755))
	must(t, os.WriteFile(filepath.Join(host, "precious"), []byte("data"), 0o644))
	s := b.launch(b.order("exit 0"))
	wantExit(t, s.wait(), 0)
	stuck := filepath.Join(string(s.dir), "upper", "home")
	must(t, os.MkdirAll(stuck, 0o755))
	must(t, unix.Mount(host, stuck, "", unix.MS_BIND, ""))
	unmount := func() { _ = unix.Unmount(stuck, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) }
	t.Cleanup(unmount)
	if err := s.Forget(); !errors.Is(err, remove.ErrLeftOver) || !strings.Contains(err.Error(), stuck) {
		t.Errorf("Forget: %v", err)
	}
	if _, err := os.Stat(filepath.Join(host, "precious")); err != nil {
		t.Fatalf("the host's file: %v", err)
	}
	if handles, _, err := client.List(b.state, parent); err != nil || len(handles) != 1 {
		t.Errorf("the allocation is not on disk any more: %v, %v", handles, err)
	}
	unmount()
	must(t, s.Forget())
}
