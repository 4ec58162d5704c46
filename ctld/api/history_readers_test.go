package api

import (
	"context"
	"testing"
	"time"
)

// TestHistoryReaders: a user's third answer waits for one of the first two, others do not
// wait, and nothing is kept of those who have gone.
func TestHistoryReaders(t *testing.T) {
	var h historyReaders
	ctx := context.Background()
	enter := func(uid uint32) func() {
		t.Helper()
		leave, err := h.enter(ctx, uid)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first, second := enter(1), enter(1)
	limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := h.enter(limited, 1); err == nil {
		t.Error("a third answer at once")
	}
	enter(2)()
	came := make(chan func())
	go func() { leave, _ := h.enter(ctx, 1); came <- leave }()
	first()
	(<-came)()
	second()
	if len(h.places) != 0 {
		t.Errorf("%d users are kept", len(h.places))
	}
}
