package bundle

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// FuzzSaved: whatever lies in an allocation's directory as the record of its newest save
// and as the mark of one that was cut off, what is told of it is of this allocation,
// can be sent, and is not frozen.
func FuzzSaved(f *testing.F) {
	saved := &pb.AllocSaved{Alloc: &pb.AllocId{Job: 12, Epoch: 1}, Number: 3, Frozen: true, Image: &pb.Image{Alloc: &pb.AllocId{Job: 12, Epoch: 1}, Number: 3, Digest: make([]byte, 32)}}
	f.Add(prototest.Marshal(saved), []byte(`{"number":3,"begun_ms":5}`))
	f.Add(prototest.Marshal(&pb.AllocSaved{Alloc: &pb.AllocId{Job: 13}}), []byte(`{"number":-1}`))
	f.Add([]byte("\xff"), []byte("["))
	for _, data := range prototest.Spoiled(saved) {
		f.Add(data, []byte(`{"number":4294967295,"begun_ms":-9223372036854775808}`))
	}
	d := Dir(filepath.Join(f.TempDir(), "12.1"))
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, record, mark []byte) {
		must(t, os.WriteFile(d.Path(savedFile), Seal(bytes.Clone(record)), 0o600))
		must(t, os.WriteFile(d.Path(MarkFile), mark, 0o600))
		if got := d.Saved(); got != nil {
			if ID(got.Alloc) != "12.1" || got.Frozen {
				t.Fatalf("a save of allocation %v, frozen %v", got.Alloc, got.Frozen)
			}
			if _, err := proto.Marshal(got); err != nil {
				t.Fatalf("it cannot be sent: %v", err)
			}
		}
		if m := d.Marked(); m != nil {
			must(t, d.Mark(*m))
			if again := d.Marked(); again == nil || *again != *m {
				t.Fatalf("%+v is read again as %+v", m, again)
			}
		}
	})
}
