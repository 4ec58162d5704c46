package pki

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What root issues belongs to the owner of the data directory, whoever comes
// first: gctld need not run as root, and reads and locks it.
func TestIssuedByRootForADaemonThatIsNot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives a directory away")
	}
	data := t.TempDir()
	if err := os.Chown(data, 20072, 20072); err != nil {
		t.Fatal(err)
	}
	authority, err := Open(filepath.Join(data, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	if err := authority.WriteBundle(Node, "gpu01", filepath.Join(t.TempDir(), "gpu01")); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != 20072 {
			t.Errorf("%s belongs to root", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
