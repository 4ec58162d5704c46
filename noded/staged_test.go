package noded

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// TestStagedTidied: what no job needs is deleted as long as the session lives in which that
// was said, and not before anybody has said anything.
func TestStagedTidied(t *testing.T) {
	old := stagedAge
	stagedAge = 0
	t.Cleanup(func() { stagedAge = old })
	m := &machine{config: Config{StateDir: t.TempDir(), Name: "n1"}}
	a := &agent{machine: m, imaging: newImaging(m), log: slog.New(slog.DiscardHandler)}
	is := func(job uint32) bool {
		_, err := os.Stat(string(bundle.KeptOf(m.config.StateDir, job)))
		return !errors.Is(err, fs.ErrNotExist)
	}
	for _, job := range []uint32{1, 2} {
		if err := os.MkdirAll(string(bundle.KeptOf(m.config.StateDir, job)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a.tidyStaged()
	if !is(1) || !is(2) {
		t.Error("deleted before anybody has said anything")
	}
	a.keepImages(&pb.KeepImages{StagedJobs: []uint32{1, 2}})
	a.tidyStaged()
	a.keepImages(&pb.KeepImages{StagedJobs: []uint32{2}})
	a.forgetStaged()
	a.tidyStaged()
	if !is(1) {
		t.Error("deleted on a word of a session that is over")
	}
	a.keepImages(&pb.KeepImages{StagedJobs: []uint32{2}})
	a.tidyStaged()
	if is(1) || !is(2) {
		t.Errorf("1 is there: %t, 2 is there: %t", is(1), is(2))
	}
}
