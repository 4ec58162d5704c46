package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	criu_core "github.com/checkpoint-restore/go-criu/v8/crit/images/criu-core"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/fown"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/timer"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/timerfd"
)

func timerFile(id uint32, ticks, left, every uint64) *fdinfo.FileEntry {
	return &fdinfo.FileEntry{Type: fdinfo.FdTypes_TIMERFD.Enum(), Id: &id, Tfd: &timerfd.TimerfdEntry{
		Id: &id, Flags: set(uint32(0)), Fown: &fown.FownEntry{Uid: set(uint32(0)), Euid: set(uint32(0)), Signum: set(uint32(0)), PidType: set(uint32(0)), Pid: set(uint32(0))}, Clockid: set(uint32(1)), Ticks: &ticks, SettimeFlags: set(uint32(0)),
		Vsec: set(uint64(0)), Vnsec: &left, Isec: set(uint64(0)), Insec: &every,
	}}
}

func timerOf(left, every uint64) *criu_core.CoreEntry {
	one := func(left, every uint64) *timer.ItimerEntry {
		return &timer.ItimerEntry{Isec: set(uint64(0)), Iusec: &every, Vsec: set(uint64(0)), Vusec: &left}
	}
	return &criu_core.CoreEntry{Mtype: criu_core.CoreEntry_X86_64.Enum(), Tc: &criu_core.TaskCoreEntry{
		TaskState: set(uint32(1)), ExitCode: set(uint32(0)), Personality: set(uint32(0)), Flags: set(uint32(0)), BlkSigset: set(uint64(0)), Comm: set("sleep"),
		Timers: &timer.TaskTimersEntry{Real: one(left, every), Virt: one(0, 0), Prof: one(0, 0)},
	}}
}

// Timers that have rung and wait to be noticed are armed again, and no others.
func TestTimersAreArmedAgain(t *testing.T) {
	dir := t.TempDir()
	files := filepath.Join(dir, filesImage)
	writeImage(t, files, timerFile(1, 1, 0, 500), timerFile(2, 0, 0, 500), timerFile(3, 1, 20, 500), timerFile(4, 1, 0, 0))
	rang, waits, off := filepath.Join(dir, "core-1.img"), filepath.Join(dir, "core-2.img"), filepath.Join(dir, "core-3.img")
	writeImage(t, rang, timerOf(0, 700))
	writeImage(t, waits, timerOf(30, 700))
	writeImage(t, off, timerOf(0, 0))
	for range 2 { // the second time nothing is to be done
		if err := rearmTimers(dir); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []uint64{500, 0, 20, 0} {
		entry := entriesOf[fdinfo.FileEntry](t, files)[i]
		if got := entry.GetTfd().GetVnsec(); got != want || entry.GetId() != uint32(i+1) {
			t.Errorf("timer file %d has %d left, not %d", entry.GetId(), got, want)
		}
	}
	for path, want := range map[string]uint64{rang: 700, waits: 30, off: 0} {
		entry := entriesOf[criu_core.CoreEntry](t, path)[0]
		if got := entry.GetTc().GetTimers().GetReal().GetVusec(); got != want {
			t.Errorf("%s: the timer has %d left, not %d", filepath.Base(path), got, want)
		}
	}
	data, err := os.ReadFile(files)
	if err != nil || !bytes.HasPrefix(data, []byte("12345678")) {
		t.Errorf("the file begins with %.8q: %v", data, err)
	}
	for _, cut := range []int{4, 10, len(data) - 1} {
		if err := os.WriteFile(files, data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if rearmTimers(dir) == nil {
			t.Errorf("a file that ends after %d bytes is taken", cut)
		}
	}
}
