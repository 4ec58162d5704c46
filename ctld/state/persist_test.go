package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// walked is a state with a bit of everything in it.
func walked(t testing.TB, seed int64, steps int) *State {
	t.Helper()
	w, s := newWalker(seed), New()
	for index := uint64(1); index <= uint64(steps); index++ {
		entry, err := Encode(w.next(s.View()), w.requestID(), int64(1_000_000+index*300))
		if err != nil {
			t.Fatal(err)
		}
		mustApply(t, s, index, entry)
	}
	return s
}

// TestRestoreRefusesDamage: no flipped bit and no cut goes unnoticed.
func TestRestoreRefusesDamage(t *testing.T) {
	whole := persisted(t, walked(t, 1, 300))
	random := rand.New(rand.NewSource(1))
	rounds := prototest.Soak(600, 10_000)
	for range rounds {
		damaged := bytes.Clone(whole)
		at, bit := random.Intn(len(damaged)), random.Intn(8)
		damaged[at] ^= 1 << bit
		if _, err := Restore(bytes.NewReader(damaged)); !errors.Is(err, ErrCorruptSnapshot) {
			t.Fatalf("bit %d of byte %d flipped: %v", bit, at, err)
		}
	}
	for range 500 {
		at := random.Intn(len(whole))
		if _, err := Restore(bytes.NewReader(whole[:at])); !errors.Is(err, ErrCorruptSnapshot) {
			t.Fatalf("cut at byte %d of %d: %v", at, len(whole), err)
		}
	}
	if _, err := Restore(bytes.NewReader(append(bytes.Clone(whole), 0))); !errors.Is(err, ErrCorruptSnapshot) {
		t.Fatalf("a byte more: %v", err)
	}
}

// TestRestoreNamesWhatIsDamaged: the error says which record and where.
func TestRestoreNamesWhatIsDamaged(t *testing.T) {
	whole := persisted(t, walked(t, 1, 300))
	at := bytes.Index(whole, []byte("#!/bin/sh"))
	whole[at] ^= 1
	_, err := Restore(bytes.NewReader(whole))
	if err == nil || !strings.Contains(err.Error(), "blob record") || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a damaged script is reported as: %v", err)
	}
}

// frames takes a persisted state apart; join puts it together with right sums.
func frames(t testing.TB, whole []byte) (kinds []frameKind, bodies [][]byte) {
	t.Helper()
	for rest := whole[len(magic):]; len(rest) > 0; {
		length := binary.BigEndian.Uint32(rest)
		kinds = append(kinds, frameKind(rest[4]))
		bodies = append(bodies, rest[9:9+length])
		rest = rest[9+length:]
	}
	return kinds, bodies
}

func join(t testing.TB, kinds []frameKind, bodies [][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	f := newFrameWriter(&out)
	f.raw([]byte(magic))
	for i, kind := range kinds {
		var record any = rawRecord(bodies[i])
		if kind == frameTrailer {
			record = trailerRecord{Frames: f.frames, CRC32C: f.sum.Sum32()}
		}
		f.frame(kind, record)
	}
	if f.err != nil {
		t.Fatal(f.err)
	}
	return out.Bytes()
}

type rawRecord []byte

func (r rawRecord) MarshalCBOR() ([]byte, error) { return r, nil }

// TestRestoreRefusesWhatDoesNotFit: records that are sound one by one and do
// not make a state together.
func TestRestoreRefusesWhatDoesNotFit(t *testing.T) {
	kinds, bodies := frames(t, persisted(t, walked(t, 1, 300)))
	if _, err := Restore(bytes.NewReader(join(t, kinds, bodies))); err != nil {
		t.Fatalf("taken apart and put together: %v", err)
	}
	first := map[frameKind]int{}
	for i := len(kinds) - 1; i >= 0; i-- {
		first[kinds[i]] = i
	}
	for _, kind := range []frameKind{frameHeader, framePolicy, frameNode, frameOwner, frameBlob, frameSpec} {
		at := first[kind]
		without := join(t, append(append([]frameKind(nil), kinds[:at]...), kinds[at+1:]...), append(append([][]byte(nil), bodies[:at]...), bodies[at+1:]...))
		if _, err := Restore(bytes.NewReader(without)); err == nil {
			// A node that nothing holds may be missing; nothing else may.
			if kind != frameNode {
				t.Errorf("restored without its first %s record", frameNames[kind])
			}
		}
	}
	for _, kind := range []frameKind{frameHeader, framePolicy, frameOwner, frameBlob, frameSpec, frameJob, frameRemembered} {
		at := first[kind]
		twice := join(t, append(append([]frameKind(nil), kinds[:at+1]...), kinds[at:]...), append(append([][]byte(nil), bodies[:at+1]...), bodies[at:]...))
		if _, err := Restore(bytes.NewReader(twice)); err == nil && kind != frameHeader {
			t.Errorf("restored with its first %s record twice", frameNames[kind])
		}
	}
	newer, err := encoding.Marshal(map[int]any{1: Format + 1, 2: 1, 3: 1, 4: 1})
	if err != nil {
		t.Fatal(err)
	}
	bodies[0] = newer
	if _, err := Restore(bytes.NewReader(join(t, kinds, bodies))); !errors.Is(err, ErrUnknownCommand) {
		t.Errorf("a newer format: %v", err)
	}
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestPersistReportsWriteErrors(t *testing.T) {
	s := walked(t, 1, 200)
	for _, room := range []int{0, 1000} {
		if err := s.View().Persist(&failingWriter{room}); err == nil {
			t.Errorf("no error with room for %d bytes", room)
		}
	}
}
