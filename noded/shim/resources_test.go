package shim

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A job opens its own device and no other; the same files opened without the
// rule show that it is the rule that stops it.
func TestDevices(t *testing.T) {
	b := newBed(t)
	program := b.probe()
	const major = 7
	var paths []string
	for minor := range uint32(4) {
		path := filepath.Join(b.home, fmt.Sprintf("gpu%d", minor))
		device(t, path, major, minor)
		if !hostOpens(path) {
			t.Skipf("needs a character device that opens: %s does not", path)
		}
		paths = append(paths, path)
	}
	own := filepath.Join(b.dir, "own-device")
	device(t, own, major, 1)
	b.settings.DeviceFiles = []bundle.DeviceFile{{Path: own, ContainerPath: "/dev/gpu0", Type: 'c', Major: major, Minor: 1, Access: "rw"}}
	_, out := b.run(program + " /dev/gpu0 " + strings.Join(paths, " ") + " /dev/null; mknod /tmp/x c 7 1 2>&1 | grep -o 'not permitted'")
	got := strings.Join(lines(out), " ")
	opened := got[:2]
	if opened != "ok" && opened != "6 " {
		t.Fatalf("its own device does not open: %s", got)
	}
	own1 := strings.Fields(got)[0]
	if want := fmt.Sprintf("%s 1 %s 1 1 ok not permitted", own1, own1); got != want {
		t.Errorf("devices answer %q, want %q", got, want)
	}

	b.settings.DeviceFiles[0].Minor = 2
	if result := b.launch(b.order("true")).wait(); result.Cause != pb.EndCause_END_CAUSE_NODE_FAULT {
		t.Errorf("a device file that is not the device it should be: %v", result)
	}
}

func TestMemory(t *testing.T) {
	noRace(t)
	b := newBed(t)
	hog := func(mib int) string {
		return fmt.Sprintf(`exec perl -e 'vec($x, (%d << 20) - 1, 8) = 1'`, mib)
	}
	result, _ := b.run(hog(300))
	wantExit(t, result, 0)
	peak := float64(result.Usage.GetPeakMemoryBytes()) / (300 << 20)
	if peak < 0.95 || peak > 1.05 {
		t.Errorf("peak memory is %.3f of what was used", peak)
	}
	if result.Usage.GetCpuNs() == 0 {
		t.Error("no CPU time was used")
	}
	result, _ = b.run(hog(700))
	if result.Cause != pb.EndCause_END_CAUSE_OUT_OF_MEMORY {
		t.Errorf("700 MiB in 512: %v", result)
	}
	result, _ = b.run("(" + hog(700) + "); exit 0")
	wantEnd(t, result, pb.EndCause_END_CAUSE_OUT_OF_MEMORY, 0, 0)
}
