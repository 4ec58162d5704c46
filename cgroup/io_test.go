package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestSetIO: a group writes to a disk no faster than its bound, and as it likes without
// one. A machine without disks, such as one that runs from memory, has nothing to bound.
func TestSetIO(t *testing.T) {
	g := create(t, Limits{})
	if err := New(parent, Limits{}).CheckIO(); errors.Is(err, ErrUnsupported) {
		t.Skipf("needs a kernel that bounds what groups read and write: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	disks, err := Disks()
	if err != nil {
		t.Fatal(err)
	}
	if len(disks) == 0 {
		t.Skip("needs a disk: this machine runs from memory")
	}
	directory := t.TempDir()
	write := func(bytes uint64) time.Duration {
		t.Helper()
		if err := g.SetIO(disks, bytes); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if status := run(t, g, "exec dd if=/dev/zero of="+directory+"/file bs=64k count=16 oflag=direct 2>/dev/null"); status != 0 {
			t.Skip("needs direct writes, which the file system of the test refuses")
		}
		return time.Since(begin)
	}
	write(0) // the file is there
	if took := write(1 << 20); took < 700*time.Millisecond {
		t.Errorf("1 MiB was written in %v, at 1 MiB a second", took)
	}
	quickest := write(0)
	for range 4 {
		quickest = min(quickest, write(0))
	}
	if quickest > 600*time.Millisecond {
		t.Errorf("without the bound it took %v", quickest)
	}
	if err := New(parent+"/none", Limits{}).SetIO(disks, 1<<20); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a group that is not there: %v", err)
	}
	if err := g.SetIO([]Disk{"4095:77"}, 1<<20); err != nil {
		t.Errorf("of a disk that is gone: %v", err)
	}
}

func TestDisks(t *testing.T) {
	directory := t.TempDir()
	for name, files := range map[string][2]string{
		"nvme0n1": {"259:0\n", "1000\n"}, "sda": {"8:0\n", "77\n"}, "sdb": {"8:16\n", "0\n"}, "loop0": {"7:0\n", "9\n"}, "zram0": {"253:0\n", "9\n"}, "sr0": {"11:0\n", "9\n"}, "dm-0": {"252:0\n", "3\n"},
	} {
		if err := os.Mkdir(filepath.Join(directory, name), 0o755); err != nil {
			t.Fatal(err)
		}
		for i, file := range []string{"dev", "size"} {
			if err := os.WriteFile(filepath.Join(directory, name, file), []byte(files[i]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	disks, err := disksIn(directory)
	if want := []Disk{"252:0", "259:0", "8:0"}; err != nil || !slices.Equal(disks, want) {
		t.Errorf("%v, %v; want %v", disks, err, want)
	}
}
