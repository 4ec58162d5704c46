package shim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestWhatMemoryHolds: an image is in memory only where that leaves enough for the
// job itself and for others.
func TestWhatMemoryHolds(t *testing.T) {
	const gib = 1 << 30
	for _, row := range []struct {
		memory
		bytes uint64
		fits  bool
	}{
		{memory{available: 60 * gib, total: 64 * gib, room: 1 << 60}, 26 * gib, true},
		{memory{available: 60 * gib, total: 64 * gib, room: 1 << 60}, 27 * gib, false}, // 8 stay free
		{memory{available: 8 * gib, total: 64 * gib, room: 1 << 60}, 1, false},
		{memory{available: 60 * gib, total: 64 * gib, room: gib}, gib, false}, // systemd limits the daemon
		{memory{available: 60 * gib, total: 64 * gib, room: 2 * gib}, gib, true},
		{memory{available: 60 * gib, total: 64 * gib, room: 0}, 0, false},
	} {
		if err := row.memory.holds(row.bytes); (err == nil) != row.fits {
			t.Errorf("%+v with %d bytes: %v", row.memory, row.bytes, err)
		}
	}
}

// TestImageInMemory: where an image is in memory that is given back as soon as the
// job goes on. While another one is in memory it is on the disk.
func TestImageInMemory(t *testing.T) {
	b := newSavingBed(t)
	order := b.counter()
	first := b.launch(order)
	first.ready()
	saved := first.save(&pb.SavePart{Number: 1, Then: stand})
	wantSaved(t, saved)
	_, err := first.client().End(context.Background(), endOrder(first))
	must(t, err)
	first.wait()
	if err := enoughMemory(saved.Image.Bytes); err != nil {
		t.Skipf("needs memory to spare: %v", err)
	}

	taken, err := takeLock(filepath.Join(b.state, memoryLock))
	must(t, err)
	for _, where := range []string{"on the disk", "in memory"} {
		order = restored(order, saved.Image)
		part := b.launch(order)
		part.ready()
		log, err := os.ReadFile(part.dir.path(logFile))
		must(t, err)
		if !strings.Contains(string(log), "the image is unpacked "+where) {
			t.Errorf("not %s:\n%s", where, log)
		}
		eventually(t, "the image's memory is given back", func() bool { return !strings.Contains(b.mountsOf(part), " "+part.dir.path(restoreDir)+" ") })
		_, err = part.client().End(context.Background(), endOrder(part))
		must(t, err)
		part.wait()
		taken.Close() // for the second
	}
}

// mountsOf is the mount table of a part's supervisor.
func (b *bed) mountsOf(s *started) string {
	b.t.Helper()
	pid, err := os.ReadFile(s.dir.path(lockFile))
	must(b.t, err)
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%s/mountinfo", strings.TrimSpace(string(pid))))
	must(b.t, err)
	return string(mounts)
}
