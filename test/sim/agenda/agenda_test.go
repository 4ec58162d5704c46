package agenda

import (
	"testing"
	"time"
)

// TestOrder: events happen by their moments, and those of one moment in the order in which
// they were planned, though one plans another.
func TestOrder(t *testing.T) {
	var a Agenda
	happened := ""
	note := func(what string) func() { return func() { happened += what } }
	a.Plan(2*time.Second, note("d"))
	a.Plan(time.Second, func() {
		happened += "a"
		a.Plan(time.Second, note("c"))
	})
	a.Plan(time.Second, note("b"))
	a.Plan(3*time.Second, note("e"))
	for {
		at, do := a.Next(2 * time.Second)
		if do == nil {
			break
		}
		if at > 2*time.Second {
			t.Errorf("what is planned for %v happens by 2 s", at)
		}
		do()
	}
	if happened != "abcd" {
		t.Errorf("it happened as %s", happened)
	}
}
