package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestOutages: each time in which a node took no jobs in one way is kept once, in the order
// of ends, and a snapshot carries when those that last began.
func TestOutages(t *testing.T) {
	d := &dialogue{t: t, state: New(), nowMS: 1_000_000}
	for _, line := range strings.Split(`register n1 cpus=4 gpus=2 boot=b1
register n2 cpus=8 boot=b2
wait seconds=10
drain n1 reason=disk
wait seconds=5
drain n1 reason=fan
wait seconds=7
down n1 reason=fan
wait seconds=3
resume n1
drain n2 reason=nothing
resume n2
wait seconds=60
down n2 reason=gone`, "\n") {
		if answer := d.play(line); strings.Contains(answer, "refused") || strings.Contains(answer, "error") {
			t.Fatalf("%s: %s", line, answer)
		}
	}
	said := func(e *pb.NodeEvent) string {
		end := "lasts"
		if e.EndMs != 0 {
			end = fmt.Sprint(e.EndMs - 1_000_000)
		}
		return fmt.Sprintf("%s %s %s by %s %d-%s %d/%d", e.Node, e.State, e.Reason, e.User, e.StartMs-1_000_000, end, e.Cpus, e.Gpus)
	}
	check := func(view *View) {
		t.Helper()
		var got []string
		for _, run := range historyOf(t, view) {
			if run.Job != nil || run.Event == nil {
				t.Fatalf("%v is not an event", run)
			}
			got = append(got, said(run.Event))
		}
		for event := range view.Outages() {
			got = append(got, said(event))
		}
		want := []string{
			"n1 DRAIN disk by root 10000-15000 4/2", "n1 DRAIN fan by root 15000-22000 4/2", "n1 DOWN+DRAIN fan by root 22000-25000 4/2",
			"n2 DOWN+DRAIN gone by root 85000-lasts 8/0",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	check(d.state.View())
	again, err := Restore(bytes.NewReader(persisted(t, d.state)))
	if err != nil {
		t.Fatal(err)
	}
	check(again.View())
}
