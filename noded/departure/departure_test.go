package departure

import (
	"testing"
	"time"
)

const s = time.Second

func TestDeparture(t *testing.T) {
	var d Departure
	if d.Leaves() || d.Tell(0) != nil || !d.MayGo(3, true, 0) || d.Stay() {
		t.Errorf("nobody has said anything: %+v", d)
	}
	if !d.Begin("shuts down", 60*s, 100*s) || d.Begin("shuts down", 60*s, 110*s) {
		t.Error("it goes in a minute, and saying so again puts nothing off")
	}
	if said := d.Tell(110 * s); said.GetWhy() != "shuts down" || said.GetWithinMs() != 45_000 {
		t.Errorf("told %v: the controllers have until five seconds before it goes", said)
	}
	if d.MayGo(1, true, 120*s) || !d.MayGo(0, true, 120*s) || !d.MayGo(1, true, 160*s) {
		t.Error("it goes when nothing is left, or its time is over")
	}
	if !d.Begin("shuts down", 10*s, 120*s) || d.Tell(120*s).GetWithinMs() != 8_000 {
		t.Error("it goes sooner than was said")
	}
	if !d.Stay() || d.Leaves() {
		t.Error("it stays after all")
	}
}

// TestAlone: where no controller is, nobody moves anything, and the machine need not wait.
func TestAlone(t *testing.T) {
	var d Departure
	d.Begin("sleeps", time.Hour, 0)
	if d.MayGo(2, false, 10*s) || !d.MayGo(2, false, 16*s) {
		t.Error("it waits a little for a controller, and not for ever")
	}
	if d.MayGo(2, true, 17*s) || d.MayGo(2, false, 30*s) {
		t.Error("a controller was there")
	}
}

// TestShort: there is some time to clean up however short it is.
func TestShort(t *testing.T) {
	for _, within := range []time.Duration{0, time.Millisecond, s, 5 * s, 24 * time.Hour} {
		var d Departure
		d.Begin("sleeps", within, 50*s)
		if left := d.Tell(50 * s).GetWithinMs(); left < 1 || left > within.Milliseconds() && within > time.Millisecond {
			t.Errorf("within %v: told %d ms", within, left)
		}
		if !d.MayGo(1, true, 50*s+within) {
			t.Errorf("within %v: it does not go", within)
		}
	}
}
