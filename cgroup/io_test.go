package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
		file := filepath.Join(directory, "file")
		if code := run(t, g, fmt.Sprintf("%s=%s exec %s", directFile, file, os.Args[0])); code == noDirectIO {
			t.Skip("needs direct writes, which the file system of the test refuses")
		} else if code != 0 {
			t.Fatalf("the write ended with %d", code)
		}
		took, err := os.ReadFile(file + ".took")
		if err != nil {
			t.Fatal(err)
		}
		d, err := time.ParseDuration(string(took))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	write(0) // the file is there
	bounded := write(1 << 20)
	if bounded < 700*time.Millisecond {
		t.Errorf("1 MiB was written in %v, at 1 MiB a second", bounded)
	}
	quickest := write(0)
	for range 4 {
		quickest = min(quickest, write(0))
	}
	if quickest > bounded/2 {
		t.Errorf("it took %v without the bound, and %v with it", quickest, bounded)
	}
	if err := New(parent+"/none", Limits{}).SetIO(disks, 1<<20); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a group that is not there: %v", err)
	}
	if err := g.SetIO([]Disk{"4095:77"}, 1<<20); err != nil {
		t.Errorf("of a disk that is gone: %v", err)
	}
}

// directFile names the file that the program writes instead of running tests. It leaves
// beside it how long that took, without the program's own start.
const directFile = "GLEANER_TEST_WRITE"

// noDirectIO is the exit code where the file system refuses.
const noDirectIO = 77

// writeDirectly writes 1 MiB past the page cache.
func writeDirectly(name string) (exitCode int) {
	const block = 64 << 10
	memory, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS) // its address is aligned
	if err != nil {
		return 1
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|unix.O_DIRECT, 0o600)
	if err != nil {
		return noDirectIO
	}
	defer file.Close()
	began := time.Now()
	for range 16 {
		if _, err := file.Write(memory); err != nil {
			return noDirectIO
		}
	}
	if err := os.WriteFile(name+".took", []byte(time.Since(began).String()), 0o600); err != nil {
		return 1
	}
	return 0
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
