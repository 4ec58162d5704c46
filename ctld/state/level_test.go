package state

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

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
	if got := s.View().Level(); got != LevelFirst {
		t.Fatalf("a new cluster has level %d", got)
	}
	_, err = s.Apply(1, sealBody(t, KindRaiseLevel, body))
	says("the log", err)
	if s.View().Level() != LevelFirst || s.View().Index() != 0 {
		t.Error("the state has changed")
	}
	s.level, s.view = Newest+1, nil
	_, err = Restore(bytes.NewReader(persisted(t, s)))
	says("a snapshot", err)

	entry, err := Encode(RaiseLevel{}, RequestID{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if mustApply(t, s, 1, entry); s.View().Level() != Newest+1 {
		t.Error("the level went down")
	}
}
