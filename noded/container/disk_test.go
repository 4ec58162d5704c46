package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDisk: a disk has a bound for bytes and for files, and the node has everything
// back when it is closed.
func TestDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: mounts")
	}
	file := filepath.Join(t.TempDir(), "disk.ext4")
	const size = 32 << 20
	must(t, MakeDisk(context.Background(), file, size))
	if err := MakeDisk(context.Background(), file, size); !errors.Is(err, os.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	disk, err := OpenDisk(file, false)
	must(t, err)
	used, err := DiskInUse(file)
	if err != nil || !used {
		t.Errorf("in use: %v, %v", used, err)
	}
	big := filepath.Join(disk.Path(), "big")
	if err := os.WriteFile(big, make([]byte, size), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("as many bytes as it has: %v", err)
	}
	if taken, err := disk.Used(); err != nil || taken < size/2 || taken > size {
		t.Errorf("%d bytes are used, %v", taken, err)
	}
	must(t, os.Remove(big))
	files := 0
	for ; err == nil && files <= size/bytesPerInode; files++ {
		var f *os.File
		if f, err = os.Create(filepath.Join(disk.Path(), strconv.Itoa(files))); err == nil {
			f.Close()
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("after %d files: %v", files, err)
	}
	must(t, disk.Close())
	eventually(t, "its loop device is free", func() bool {
		used, err := DiskInUse(file)
		return err == nil && !used
	})
	again, err := OpenDisk(file, true)
	must(t, err)
	if _, err := os.Stat(filepath.Join(again.Path(), "0")); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(again.Path(), "0"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("written though read-only: %v", err)
	}
	must(t, again.Discard())
	eventually(t, "its loop device is free again", func() bool {
		used, err := DiskInUse(file)
		return err == nil && !used
	})
}
