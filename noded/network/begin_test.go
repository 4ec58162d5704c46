package network

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// newBegun is a job's network of which what can be is made ahead.
func newBegun(t *testing.T, who string, number uint32) *Out {
	t.Helper()
	routes, err := Routes()
	must(t, err)
	ranges, err := ChooseRanges(Ranges{}, routes)
	must(t, err)
	out := New(Config{Who: t.Name() + who, Job: number, Number: number, Node: "n1", Ranges: ranges})
	t.Cleanup(func() { must(t, out.Close()) })
	must(t, out.begin())
	if out.table == nil {
		t.Fatal("there is no table")
	}
	return out
}

// TestBegunAhead: what was made before process 1 was there is used if it still holds, and
// made again if not.
func TestBegunAhead(t *testing.T) {
	newOutside(t)
	forwards := func() string {
		text, err := os.ReadFile(forwardingOf("up0"))
		must(t, err)
		return strings.TrimSpace(string(text))
	}
	join := func(out *Out) *place {
		t.Helper()
		job := newPlace(t, syscall.CLONE_NEWUSER)
		must(t, out.Join(job.pid, false))
		if got := job.reaches(outsideAddress + ":80"); got != nodeAddress {
			t.Errorf("the outside sees %q, want the node's address", got)
		}
		return job
	}

	unused := newBegun(t, "unused", 7)
	if forwards() != "1" {
		t.Error("nothing was begun")
	}
	must(t, unused.Close())
	if tables := tablesOf(t); len(tables) > 0 || forwards() != "0" {
		t.Errorf("a job that never came leaves the tables %v, and forwarding %s", tables, forwards())
	}

	first, second := newBegun(t, "first", 7), newBegun(t, "second", 7)
	begun := first.table
	must(t, Tidy()) // as the end of another job does, while none has a link
	if forwards() != "0" {
		t.Fatal("it was not taken back")
	}
	job := join(first)
	if first.table != begun {
		t.Error("the table was made twice")
	}
	if forwards() != "1" {
		t.Error("the node passes on nothing while a job is there")
	}
	begun = second.table
	other := join(second) // its address was taken meanwhile
	if first.plan.V4 == second.plan.V4 || second.table == begun {
		t.Errorf("two jobs have the address %s", first.plan.V4)
	}
	if got := job.reaches(outsideAddress + ":80"); got != nodeAddress {
		t.Errorf("the first job is seen as %q", got)
	}
	node := &place{t, os.Getpid()}
	other.serve("tcp", ":83")
	if got := node.reaches(second.plan.V4.String() + ":83"); got != "" {
		t.Errorf("the node reaches the job as %s", got)
	}
}

// TestBeginAndJoin: whichever comes first.
func TestBeginAndJoin(t *testing.T) {
	newOutside(t)
	for range 5 {
		job, out := newPlace(t, syscall.CLONE_NEWUSER), New(Config{Who: t.Name(), Job: 7, Number: 7, Node: "n1", Ranges: Ranges{V4: candidates4[0], V6: default6}})
		out.Begin()
		must(t, out.Join(job.pid, false))
		if got := job.reaches(outsideAddress + ":80"); got != nodeAddress {
			t.Errorf("the outside sees %q, want the node's address", got)
		}
		must(t, out.Close())
		out.Begin()
	}
	if tables := tablesOf(t); len(tables) > 0 {
		t.Errorf("tables after all: %v", tables)
	}
}
