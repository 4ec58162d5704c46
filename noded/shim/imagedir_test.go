package shim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/imagedir"
)

// TestImageInMemory: where an image is in memory that is given back as soon as the
// job resumes. While another one is in memory it is on the disk.
func TestImageInMemory(t *testing.T) {
	b := newSavingBed(t)
	order := b.counter()
	first := b.launch(order)
	first.ready()
	saved := first.saveAndEnd(1)
	if err := imagedir.EnoughMemory(saved.Image.Bytes); err != nil {
		t.Skipf("needs memory to spare: %v", err)
	}

	taken, err := bundle.Lock(filepath.Join(b.state, imagedir.LockFile))
	must(t, err)
	for _, where := range []string{"on the disk", "in memory"} {
		order = restored(order, saved.Image)
		alloc := b.launch(order)
		alloc.ready()
		log, err := os.ReadFile(alloc.dir.Path(bundle.LogFile))
		must(t, err)
		if !strings.Contains(string(log), "the image is unpacked "+where) {
			t.Errorf("not %s:\n%s", where, log)
		}
		eventually(t, "the image's memory is given back", func() bool { return !strings.Contains(b.mountsOf(alloc), " "+alloc.dir.Path(imagedir.Name)+" ") })
		_, err = alloc.client().End(context.Background(), endOrder(alloc))
		must(t, err)
		alloc.wait()
		taken.Close() // for the second
	}
}

// mountsOf is the mount table of an allocation's supervisor.
func (b *bed) mountsOf(s *started) string {
	b.t.Helper()
	pid, err := os.ReadFile(s.dir.Path(bundle.LockFile))
	must(b.t, err)
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%s/mountinfo", strings.TrimSpace(string(pid))))
	must(b.t, err)
	return string(mounts)
}
