package checkpoint

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"

	criu_core "github.com/checkpoint-restore/go-criu/v8/crit/images/criu-core"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/siginfo"
	"golang.org/x/sys/unix"
)

func queueOf(signals ...unix.Signal) *siginfo.SignalQueueEntry {
	queue := &siginfo.SignalQueueEntry{}
	for _, signal := range signals {
		queue.Signals = append(queue.Signals, &siginfo.SiginfoEntry{Siginfo: binary.NativeEndian.AppendUint32(nil, uint32(signal))})
	}
	return queue
}

func signalsIn(queue *siginfo.SignalQueueEntry) (signals []unix.Signal) {
	for _, s := range queue.GetSignals() {
		signals = append(signals, unix.Signal(binary.NativeEndian.Uint32(s.Siginfo)))
	}
	return signals
}

// SIGCONT waits for process 1 no longer, and every other signal still does; those of
// other processes are their own.
func TestContinuesAreDropped(t *testing.T) {
	dir := t.TempDir()
	first, other := filepath.Join(dir, initCore), filepath.Join(dir, "core-2.img")
	waiting := timerOf(0, 0)
	waiting.Tc.SignalsS = queueOf(unix.SIGCHLD, unix.SIGCONT, unix.SIGTERM)
	writeImage(t, first, waiting)
	writeImage(t, other, waiting)
	for range 2 { // the second time nothing is to be done
		if err := dropContinues(dir); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string][]unix.Signal{first: {unix.SIGCHLD, unix.SIGTERM}, other: {unix.SIGCHLD, unix.SIGCONT, unix.SIGTERM}} {
		if got := signalsIn(entriesOf[criu_core.CoreEntry](t, path)[0].GetTc().GetSignalsS()); !slices.Equal(got, want) {
			t.Errorf("%s: %v wait, not %v", filepath.Base(path), got, want)
		}
	}
}
