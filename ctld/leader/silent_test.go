package leader

import (
	"errors"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/session"
)

// TestSilentNodeIsNotBackByItself: a leader that was stopped starts to count
// silence again, which is no sign of life of a node that was silent before.
func TestSilentNodeIsNotBackByItself(t *testing.T) {
	w := newSite(t)
	w.pass(siteLease + 2*siteMargin)
	if node, _ := w.b.View().Node("n1"); !node.NotResponding {
		t.Fatal("the node is not found silent")
	}
	w.since = w.now
	w.pass(siteMargin)
	if node, _ := w.b.View().Node("n1"); !node.NotResponding {
		t.Fatal("a node that nobody heard of takes jobs again")
	}
	w.link.Touch(w.now)
	w.pass(siteMargin)
	if node, _ := w.b.View().Node("n1"); w.link.Cause() == nil && node.NotResponding {
		t.Fatal("a node that was heard of does not")
	}
}

// TestSilentNodeMustRegister: what it lost with its leases is still frozen
// there, until it has said so.
func TestSilentNodeMustRegister(t *testing.T) {
	w := newSite(t)
	w.grant()
	w.pass(2 * (siteLease + siteMargin))
	if cause := w.link.Cause(); !errors.Is(cause, session.ErrEnding) {
		t.Fatalf("its session continues: %v", cause)
	}
}
