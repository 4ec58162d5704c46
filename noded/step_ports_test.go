package noded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// TestPortBlocks: no two allocations have a block, also not across a restart of the
// daemon, and a block is free again with its allocation.
func TestPortBlocks(t *testing.T) {
	state := t.TempDir()
	write := func(job, first string) {
		dir := filepath.Join(state, bundle.JobsDir, job)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, bundle.SettingsFile), []byte(`{"step_port":`+first+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ports := PortRange{20000, 20000 + 3*bundle.StepPorts}
	blocks := &portBlocks{}
	first, done := blocks.take(ports, state)
	second, _ := blocks.take(ports, state)
	if first != 20000 || second != 20000+bundle.StepPorts {
		t.Fatal(first, second)
	}
	write("1.1", "20000")
	done()
	again := &portBlocks{} // the daemon was started again; the second was never written
	if got, _ := again.take(ports, state); got != second {
		t.Error(got)
	}
	write("2.1", "20008")
	write("3.1", "20016")
	if got, _ := (&portBlocks{}).take(ports, state); got != 0 {
		t.Error("a block is given twice:", got)
	}
	if err := os.RemoveAll(filepath.Join(state, bundle.JobsDir, "1.1")); err != nil {
		t.Fatal(err)
	}
	if got, _ := (&portBlocks{}).take(ports, state); got != 20000 {
		t.Error(got)
	}
	if got, _ := blocks.take(PortRange{}, state); got != 0 {
		t.Error("there are none:", got)
	}
}
