package noded

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/shim/openers"
)

func login(kind uint16, line, name string) []byte {
	record := make([]byte, loginBytes)
	binary.NativeEndian.PutUint16(record, kind)
	copy(record[8:40], line)
	copy(record[44:76], name)
	return record
}

// TestLoginSight: one of the people at a terminal that was used just now counts, and nothing else.
func TestLoginSight(t *testing.T) {
	now := time.Unix(10_000, 0)
	used := func(line string) time.Time {
		if line == "tty1" {
			return now.Add(-time.Second)
		}
		return now.Add(-time.Hour)
	}
	for name, row := range map[string]struct {
		records []byte
		seen    bool
	}{
		"nobody":             {nil, false},
		"bob":                {login(userProcess, "tty1", "bob"), true},
		"after another":      {append(login(userProcess, "tty1", "alice"), login(userProcess, "tty1", "bob")...), true},
		"somebody else":      {login(userProcess, "tty1", "alice"), false},
		"bob, who is away":   {login(userProcess, "pts/3", "bob"), false},
		"bob, who has left":  {login(8, "tty1", "bob"), false},
		"half a record":      {login(userProcess, "tty1", "bob")[:200], false},
		"a name that climbs": {login(userProcess, "../tty1", "bob"), false},
	} {
		if sight := loginSight(row.records, []string{"bob", "cora"}, used, now); sight.Seen != row.seen || sight.Seen && (sight.By != "bob" || sight.Detail != "on tty1") {
			t.Errorf("%s: %+v", name, sight)
		}
	}
}

// TestGPUFiles: what is looked for are GPUs, by the numbers of their files.
func TestGPUFiles(t *testing.T) {
	files := gpuFiles([]gpu.Device{{File: gpu.File{Major: 195, Minor: 3}}, {File: gpu.File{Major: 195, Minor: 255, Companion: true}}})
	if want := (openers.Device{Type: 'c', Major: 195, Minor: 3}); len(files) != 1 || files[0] != want {
		t.Errorf("files %v", files)
	}
	f, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	zero := gpu.Device{File: gpu.File{Major: int64(unix.Major(stat.Rdev)), Minor: int64(unix.Minor(stat.Rdev))}}
	if found, err := openers.Find([]int{os.Getpid()}, gpuFiles([]gpu.Device{zero})); err != nil || found == nil {
		t.Errorf("this process has it open: %v, %v", found, err)
	}
}
