package snapshotfile

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func header() *pb.SnapshotHeader {
	return &pb.SnapshotHeader{Format: Format, ClusterName: "gleaner", Index: 7, Term: 2, Peers: []string{"c1", "c2"}, JobsWaiting: 3}
}

func recording() []*pb.Recording {
	return []*pb.Recording{
		{TimeS: 100, Policy: &pb.Policy{ClusterName: "gleaner"}, Nodes: []*pb.RecordedNode{{Name: "n1", Cpus: 4}}},
		{Runs: []*pb.RecordedRun{{JobId: 1, StartS: 10, EndS: 20}}},
		{Runs: []*pb.RecordedRun{{JobId: 2, StartS: 10}}},
	}
}

func written(t testing.TB, state []byte) []byte {
	t.Helper()
	var file bytes.Buffer
	err := Send(header(), slices.Values(recording()), func(w io.Writer) error { _, err := w.Write(state); return err }, NewWriter(&file).Add)
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, size := range []int{0, 1, MaxPiece - 1, MaxPiece, MaxPiece + 1, 3*MaxPiece + 5} {
		state := bytes.Repeat([]byte("gleaner"), size/7+1)[:size]
		var got []byte
		checker, err := Read(bytes.NewReader(written(t, state)), func(chunk *pb.SnapshotChunk) error {
			got = append(got, chunk.GetData()...)
			return nil
		})
		if err != nil || !bytes.Equal(got, state) || !proto.Equal(checker.Header(), header()) || checker.Bytes() != int64(size) {
			t.Fatalf("%d bytes: %v, %d read, header %v", size, err, len(got), checker.Header())
		}
	}
}

// TestRecording: the pieces come together, and are no part of the state.
func TestRecording(t *testing.T) {
	got, err := ReadRecording(bytes.NewReader(written(t, []byte("state"))))
	want := recording()[0]
	want.Runs = []*pb.RecordedRun{{JobId: 1, StartS: 10, EndS: 20}, {JobId: 2, StartS: 10}}
	if err != nil || !proto.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	var file bytes.Buffer
	if err := Send(header(), slices.Values(recording()), nil, NewWriter(&file).Add); err != nil {
		t.Fatal(err)
	}
	checker, err := Read(&file, nil)
	if err != nil || checker.Bytes() != 0 {
		t.Fatalf("a recording alone has %d bytes of state, %v", checker.Bytes(), err)
	}
	broken := &pb.SnapshotChunk{What: &pb.SnapshotChunk_Recording{Recording: []byte("\xff\xff")}}
	if err := new(Recorder).Take(broken); !errors.Is(err, ErrDamaged) {
		t.Fatalf("a piece that is no recording: %v", err)
	}
	if err := new(Checker).Take(broken); !errors.Is(err, ErrDamaged) {
		t.Fatalf("a recording before the header: %v", err)
	}
}

// TestEveryDamageShows flips bits and cuts ends off: none of it is taken.
func TestEveryDamageShows(t *testing.T) {
	file := written(t, bytes.Repeat([]byte("state"), 2000))
	for offset := range file {
		if offset > 200 && offset < len(file)-100 && rand.IntN(20) > 0 {
			continue
		}
		for bit := range 8 {
			damage := bytes.Clone(file)
			damage[offset] ^= 1 << bit
			if _, err := Read(bytes.NewReader(damage), nil); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Fatalf("byte %d bit %d: %v", offset, bit, err)
			}
		}
		if _, err := Read(bytes.NewReader(file[:offset]), nil); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut off at %d: %v", offset, err)
		}
	}
	if _, err := Read(bytes.NewReader(append(file, file[len(magic):]...)), nil); !errors.Is(err, ErrDamaged) {
		t.Fatalf("twice: %v", err)
	}
}

func TestNewerFormat(t *testing.T) {
	newer := header()
	newer.Format = Format + 1
	if err := new(Checker).Take(&pb.SnapshotChunk{What: &pb.SnapshotChunk_Header{Header: newer}}); !errors.Is(err, ErrNewer) {
		t.Fatal(err)
	}
}

// FuzzRead: whatever a file holds, reading it ends, and what is taken is whole.
func FuzzRead(f *testing.F) {
	f.Add(written(f, []byte("state")))
	f.Add(written(f, nil))
	f.Add([]byte(magic))
	f.Add([]byte(magic + "\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, file []byte) {
		var chunks int
		checker, err := Read(bytes.NewReader(file), func(*pb.SnapshotChunk) error { chunks++; return nil })
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Fatal(err)
			}
			return
		}
		if checker.Header() == nil || chunks < 2 || checker.Bytes() > int64(len(file)) {
			t.Fatalf("%d messages, %d bytes of %d, header %v", chunks, checker.Bytes(), len(file), checker.Header())
		}
	})
}
