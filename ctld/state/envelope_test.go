package state

import (
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

func seal(t *testing.T, change func(*Envelope)) []byte {
	t.Helper()
	body, err := encoding.Marshal(Barrier{})
	if err != nil {
		t.Fatal(err)
	}
	envelope := Envelope{Version: Version, Kind: KindBarrier, TimeMS: 5, CRC32C: crc32.Checksum(body, castagnoli), Body: body}
	change(&envelope)
	entry, err := encoding.Marshal(envelope)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// sealBody is an entry with this body.
func sealBody(t *testing.T, kind Kind, body []byte) []byte {
	return seal(t, func(e *Envelope) { e.Kind, e.Body, e.CRC32C = kind, body, crc32.Checksum(body, castagnoli) })
}

// TestStopsAtUnknown: a peer must not continue over an entry it does not know or
// that is damaged, and must not have changed anything.
func TestStopsAtUnknown(t *testing.T) {
	newField, _ := encoding.Marshal(map[int]int{1: 5, 99: 1})
	withBody := func(kind Kind, body []byte) func(*Envelope) {
		return func(e *Envelope) { e.Kind, e.Body, e.CRC32C = kind, body, crc32.Checksum(body, castagnoli) }
	}
	tests := map[string]struct {
		entry []byte
		want  error
	}{
		"newer version":      {seal(t, func(e *Envelope) { e.Version++ }), ErrUnknownCommand},
		"unknown kind":       {seal(t, func(e *Envelope) { e.Kind = 999 }), ErrUnknownCommand},
		"unknown field":      {seal(t, withBody(KindPurgeJobs, newField)), ErrUnknownCommand},
		"wrong checksum":     {seal(t, func(e *Envelope) { e.CRC32C++ }), ErrCorruptCommand},
		"negative time":      {seal(t, func(e *Envelope) { e.TimeMS = -1 }), ErrCorruptCommand},
		"impossible time":    {seal(t, func(e *Envelope) { e.TimeMS = 1 << 62 }), ErrCorruptCommand},
		"body of wrong type": {seal(t, withBody(KindPurgeJobs, []byte{0x01})), ErrCorruptCommand},
		"empty":              {nil, ErrCorruptCommand},
		"rubbish":            {[]byte("rubbish"), ErrCorruptCommand},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := New()
			before := string(persisted(t, s))
			if _, err := s.Apply(1, test.entry); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if string(persisted(t, s)) != before {
				t.Error("the state has changed")
			}
		})
	}
}

// TestTimeNeverGoesBack, whatever the leaders' clocks say; and an entry that
// was applied is not applied again.
func TestTimeNeverGoesBack(t *testing.T) {
	s := New()
	for index, ms := range []int64{1000, 3000, 2000, 0, 3001} {
		entry, err := Encode(Barrier{}, RequestID{}, ms)
		if err != nil {
			t.Fatal(err)
		}
		result := mustApply(t, s, uint64(index+1), entry)
		if want := []int64{1000, 3000, 3000, 3000, 3001}[index]; result.TimeMS != want || s.TimeMS() != want {
			t.Errorf("entry %d: time %d, want %d", index+1, result.TimeMS, want)
		}
	}
	entry, err := Encode(SubmitJob{Owner: Owner{UID: 1}}, RequestID{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if result := mustApply(t, s, 5, entry); result.JobID != 0 || s.Counts().Jobs != 0 {
		t.Error("an entry was applied twice")
	}
}

// TestEncodeRefuses what no peer could read back: once committed it would stop
// all of them.
func TestEncodeRefuses(t *testing.T) {
	var refused *Refusal
	tests := map[string]Command{
		"too large": SubmitJob{Script: make([]byte, bounds.MaxBodyBytes)},
		"too many":  HoldJobs{Targets: make([]Target, 1<<20+1)},
	}
	for name, command := range tests {
		if _, err := Encode(command, RequestID{}, 1); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Encode(Barrier{}, RequestID{}, -1); err == nil {
		t.Error("a negative time")
	}
	// Text that is not UTF-8 is not nice, but must not stop a peer.
	entry, err := Encode(UpdateNodes{Names: []string{"\xff"}, Action: ResumeNode}, RequestID{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if result := mustApply(t, New(), 1, entry); result.Refused == nil {
		t.Error("a node with a name that is not UTF-8 was found")
	}
}

// TestKindsHaveNames: every kind is in the table under the number it answers.
func TestKindsHaveNames(t *testing.T) {
	for kind, row := range commands {
		body, _ := encoding.Marshal(map[int]int{})
		command, err := row.decode(body)
		if err != nil {
			t.Errorf("%s: an empty body: %v", row.name, err)
			continue
		}
		if command.kind() != kind || kind.String() != row.name {
			t.Errorf("%s answers kind %d and is in the table under %d", row.name, command.kind(), kind)
		}
	}
	if !strings.Contains(Kind(999).String(), "999") {
		t.Error("an unknown kind has no number in its name")
	}
}
