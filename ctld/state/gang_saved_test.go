package state

import (
	"fmt"
	"testing"
)

// TestKnownAs: whatever a job is moved to, its nodes are told by which names its
// processes know them.
func TestKnownAs(t *testing.T) {
	d := &dialogue{t: t, state: New(), nowMS: 1_000_000}
	for _, line := range []string{"level", "register n1 cpus=4 boot=b1", "register n2 cpus=4 boot=b2", "register n3 cpus=4 boot=b3", "submit by=1000 nodes=2"} {
		d.play(line)
	}
	from := [2]string{"n1", "n2"}
	d.play("place 1 n1:0 n2:0")
	for i, to := range [][2]string{{"n2", "n3"}, {"n1", "n3"}, {"n1", "n2"}} {
		image, run := i+1, fmt.Sprintf("1.%d", i+1)
		for _, line := range []string{
			"ready " + run + " " + from[0], "ready " + run + " " + from[1],
			"migrate 1 by=1000 to=" + to[0] + "," + to[1],
			fmt.Sprintf("saved %s %s image=%d stands", run, from[0], image), fmt.Sprintf("saved %s %s image=%d stands", run, from[1], image),
			"ended " + run + " " + from[0] + " cause=cancelled", "ended " + run + " " + from[1] + " cause=cancelled",
			fmt.Sprintf("place 1 %s:0 %s:0 image=%d", to[0], to[1], image),
		} {
			d.play(line)
		}
		order, err := d.state.View().StartPart(1, to[1])
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprintf("%v %s", order.KnownAs, order.Restore.Node), []string{"[n1 n2] n2", "[n1 n2] n3", "[] n3"}[i]; got != want {
			t.Errorf("on %v: %s, want %s", to, got, want)
		}
		from = to
	}
}
