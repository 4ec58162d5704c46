package state

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func applyLevel(t *testing.T, s *State, index uint64, level Level) {
	t.Helper()
	entry, err := Encode(RaiseLevel{Level: level}, RequestID{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(index, entry); err != nil {
		t.Fatal(err)
	}
}

func TestRaiseLevel(t *testing.T) {
	s := New()
	if s.View().Level() != LevelFirst {
		t.Fatalf("a new cluster has level %d", s.View().Level())
	}
	for i, step := range []struct{ raise, want Level }{{LevelPeers, LevelPeers}, {LevelFirst, LevelPeers}, {0, LevelPeers}} {
		applyLevel(t, s, uint64(i+1), step.raise)
		if got := s.View().Level(); got != step.want {
			t.Errorf("raised to %d, the level is %d", step.raise, got)
		}
	}
	restored, err := Restore(bytes.NewReader(persisted(t, s)))
	if err != nil || restored.View().Level() != LevelPeers {
		t.Errorf("restored with level %d, %v", restored.View().Level(), err)
	}
}

// TestFirstLevelIsReadByAll: what Persist writes at the first level, a program
// that knows no levels can read.
func TestFirstLevelIsReadByAll(t *testing.T) {
	s := New()
	var header struct {
		Format  uint32 `cbor:"1,keyasint"`
		Index   uint64 `cbor:"2,keyasint"`
		TimeMS  int64  `cbor:"3,keyasint"`
		NextJob uint32 `cbor:"4,keyasint"`
	}
	frame := persisted(t, s)[len(magic):]
	length := int(frame[0])<<24 | int(frame[1])<<16 | int(frame[2])<<8 | int(frame[3])
	if err := decoding.Unmarshal(frame[9:9+length], &header); err != nil {
		t.Errorf("the header holds what the first program does not know: %v", err)
	}
}

// TestNewerLevelStops: a program stops at what is above its level, in the log
// and in a snapshot, and says what to do.
func TestNewerLevelStops(t *testing.T) {
	says := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrUnknownCommand) || errors.Is(err, ErrCorruptSnapshot) || !strings.Contains(err.Error(), "upgrade this controller") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := Encode(RaiseLevel{Level: Newest + 1}, RequestID{}, 1)
	if err == nil {
		t.Error("a program proposes a level that it does not understand")
	}
	body, err := encoding.Marshal(RaiseLevel{Level: Newest + 1})
	if err != nil {
		t.Fatal(err)
	}
	s := New()
	_, err = s.Apply(1, sealBody(t, KindRaiseLevel, body))
	says("the log", err)
	if s.View().Level() != LevelFirst || s.View().Index() != 0 {
		t.Error("the state has changed")
	}
	s.level, s.view = Newest+1, nil
	_, err = Restore(bytes.NewReader(persisted(t, s)))
	says("a snapshot", err)
}

func TestLevelOf(t *testing.T) {
	for command, want := range map[Command]Level{
		Barrier{}: LevelFirst, PurgeJobs{BeforeMS: 5}: LevelFirst, RaiseLevel{}: LevelPeers, RaiseLevel{Level: 7}: 7,
	} {
		if got := LevelOf(command); got != want {
			t.Errorf("%v needs level %d, want %d", command, got, want)
		}
	}
}
