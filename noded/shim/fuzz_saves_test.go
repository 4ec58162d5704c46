package shim

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle/bundletest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// FuzzSaves: whatever orders to save come, each in any number and in any order,
// the answer to the highest is told in the end, and nothing resumes by itself.
func FuzzSaves(f *testing.F) {
	f.Add([]byte{1, 1, 2, 2, 5, 1})
	f.Add([]byte{2, 1, 255, 0, 5, 1}) // an order that was late takes the place of a later one
	f.Add([]byte{9, 4, 9, 0, 9, 5, 0, 0, math.MaxUint8, 3})
	d := bundle.Dir(filepath.Join(f.TempDir(), "12.1"))
	settings, err := json.Marshal(&bundle.Settings{Node: "n1", StateDir: f.TempDir(), CgroupParent: "/gleaner-nowhere/n1"})
	if err == nil {
		err = errors.Join(os.MkdirAll(string(d), 0o700), os.WriteFile(d.Path(bundle.SettingsFile), settings, 0o600), os.WriteFile(d.Path(bundle.OrderFile), bundle.Seal(prototest.Marshal(bundletest.Order())), 0o600))
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, orders []byte) {
		p, err := newAlloc(d, slog.New(slog.DiscardHandler))
		must(t, err)
		defer p.relay.Close()
		highest := uint32(0)
		for i := 0; i+1 < min(len(orders), 64); i += 2 {
			// What is asked of a save, and whether the allocation is up by then.
			number, what := uint32(orders[i]), orders[i+1]
			p.mu.Lock()
			p.core.Ready = p.core.Ready || what&8 != 0
			p.mu.Unlock()
			if number == 0 {
				continue // refused at the door
			}
			highest = max(highest, number)
			p.takeSave(&pb.SaveAlloc{Alloc: p.order.Alloc, Number: number, Then: pb.SaveThen(what & 3), Abandon: what&4 != 0, TimeoutS: uint32(what >> 4)})
		}
		for end := time.Now().Add(prototest.Patience); ; time.Sleep(time.Millisecond) {
			p.mu.Lock()
			now, last, frozen := p.core.Now, p.core.Last, p.core.Frozen
			p.mu.Unlock()
			if frozen != nil || last.GetImage() != nil {
				t.Fatal("an image was made of nothing")
			}
			if now == nil && last.GetNumber() == highest {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("told of %d, and not of %d", last.GetNumber(), highest)
			}
		}
		p.stopSaving()
	})
}
