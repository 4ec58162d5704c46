package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// FuzzSaved: whatever lies in a part's directory as the record of its newest save
// and as the mark of one that was cut off, what is told of it is of this part,
// can be sent, and does not stand.
func FuzzSaved(f *testing.F) {
	saved := &pb.PartSaved{Part: &pb.PartId{Job: 12, Epoch: 1}, Number: 3, Stands: true, Image: &pb.Image{Part: &pb.PartId{Job: 12, Epoch: 1}, Number: 3, Digest: make([]byte, 32)}}
	f.Add(prototest.Marshal(saved), []byte(`{"number":3,"begun_ms":5}`))
	f.Add(prototest.Marshal(&pb.PartSaved{Part: &pb.PartId{Job: 13}}), []byte(`{"number":-1}`))
	f.Add([]byte("\xff"), []byte("["))
	for _, data := range prototest.Spoiled(saved) {
		f.Add(data, []byte(`{"number":4294967295,"begun_ms":-9223372036854775808}`))
	}
	d := directory(filepath.Join(f.TempDir(), "12.1"))
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, record, mark []byte) {
		must(t, os.WriteFile(d.path(savedFile), seal(bytes.Clone(record)), 0o600))
		must(t, os.WriteFile(d.path(markFile), mark, 0o600))
		if got := (&Handle{dir: d}).Saved(); got != nil {
			if partID(got.Part) != "12.1" || got.Stands {
				t.Fatalf("a save of part %v, stands %v", got.Part, got.Stands)
			}
			if _, err := proto.Marshal(got); err != nil {
				t.Fatalf("it cannot be sent: %v", err)
			}
		}
		if m := d.marked(); m != nil {
			must(t, d.mark(*m))
			if again := d.marked(); again == nil || *again != *m {
				t.Fatalf("%+v is read again as %+v", m, again)
			}
		}
	})
}

// FuzzSaves: whatever orders to save come, each in any number and in any order,
// the answer to the highest is told in the end, and nothing goes on by itself.
func FuzzSaves(f *testing.F) {
	f.Add([]byte{1, 1, 2, 2, 5, 1})
	f.Add([]byte{2, 1, 255, 0, 5, 1}) // an order that was late takes the place of a later one
	f.Add([]byte{9, 4, 9, 0, 9, 5, 0, 0, math.MaxUint8, 3})
	d := directory(filepath.Join(f.TempDir(), "12.1"))
	settings, err := json.Marshal(&Settings{Node: "n1", StateDir: f.TempDir(), CgroupParent: "/gleaner-nowhere/n1"})
	if err == nil {
		err = errors.Join(os.MkdirAll(string(d), 0o700), os.WriteFile(d.path(settingsFile), settings, 0o600), os.WriteFile(d.path(orderFile), seal(prototest.Marshal(fuzzOrder())), 0o600))
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, orders []byte) {
		p, err := newPart(d, slog.New(slog.DiscardHandler))
		must(t, err)
		defer p.relay.close()
		highest := uint32(0)
		for i := 0; i+1 < min(len(orders), 64); i += 2 {
			// What is asked of a save, and whether the part is up by then.
			number, what := uint32(orders[i]), orders[i+1]
			p.mu.Lock()
			p.ready = p.ready || what&8 != 0
			p.mu.Unlock()
			if number == 0 {
				continue // refused at the door
			}
			highest = max(highest, number)
			p.takeSave(&pb.SavePart{Part: p.order.Part, Number: number, Then: pb.SaveThen(what & 3), Abandon: what&4 != 0, TimeoutS: uint32(what >> 4)})
		}
		for end := time.Now().Add(prototest.Patience); ; time.Sleep(time.Millisecond) {
			p.mu.Lock()
			now, last, stands := p.saves.now, p.saves.last, p.saves.stands
			p.mu.Unlock()
			if stands != nil || last.GetImage() != nil {
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
