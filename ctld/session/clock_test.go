package session

import (
	"testing"
	"time"
)

// TestBoottime: what a node's clock says is known but for what its fastest message was on the
// way, and is never said to be more.
func TestBoottime(t *testing.T) {
	var s Session
	start := time.Now()
	if got := s.Boottime(start); got != 0 {
		t.Errorf("nothing was sent, and its clock says %v", got)
	}
	const truth = 10 * time.Hour // at start
	for _, sent := range []struct{ at, way time.Duration }{{0, 3 * time.Second}, {time.Second, time.Millisecond}, {2 * time.Second, time.Second}} {
		s.NoteClock(truth+sent.at, start.Add(sent.at+sent.way))
	}
	if got, want := s.Boottime(start.Add(time.Minute)), truth+time.Minute; got != want-time.Millisecond {
		t.Errorf("its clock says %v, want %v", got, want)
	}
}
