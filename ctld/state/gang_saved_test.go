package state

import (
	"fmt"
	"testing"
)

// TestKnownAs: whatever a job is moved to, its nodes are told by which names its
// processes know them.
func TestKnownAs(t *testing.T) {
	d := &dialogue{t: t, state: New(), nowMS: 1_000_000}
	for _, line := range []string{"register n1 cpus=4 boot=b1", "register n2 cpus=4 boot=b2", "register n3 cpus=4 boot=b3", "register n4 cpus=4 boot=b4", "submit by=1000 nodes=2"} {
		d.play(line)
	}
	from := [2]string{"n1", "n2"}
	d.play("place 1 n1:0 n2:0")
	for i, to := range [][2]string{{"n3", "n4"}, {"n1", "n2"}, {"n3", "n4"}} {
		image, run, next := i+1, fmt.Sprintf("1.%d", i+1), fmt.Sprintf("1.%d", i+2)
		for _, line := range []string{
			"ready " + run + " " + from[0], "ready " + run + " " + from[1],
			"migrate 1 by=1000 to=" + to[0] + "," + to[1],
			fmt.Sprintf("saved %s %s image=%d stands", run, from[0], image), fmt.Sprintf("saved %s %s image=%d stands", run, from[1], image),
			"ready " + next + " " + to[0], "ready " + next + " " + to[1],
			"ended " + run + " " + from[0] + " cause=cancelled", "ended " + run + " " + from[1] + " cause=cancelled",
		} {
			d.play(line)
		}
		order, err := d.state.View().StartAlloc(1, to[1])
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprintf("%v %s", order.KnownAs, order.Restore.Node), []string{"[n1 n2] n2", "[] n4", "[n1 n2] n2"}[i]; got != want {
			t.Errorf("on %v: %s, want %s", to, got, want)
		}
		from = to
	}
}

// TestSuccessorEndsWithoutImage: a node restarts on which a successor waits for the image.
// The successor is given up, and its other nodes are told to end it: a job that holds
// something there never ends.
func TestSuccessorEndsWithoutImage(t *testing.T) {
	d := &dialogue{t: t, state: New(), nowMS: 1_000_000}
	for _, line := range []string{
		"register n1 cpus=4 boot=b1", "register n2 cpus=4 boot=b2", "register n3 cpus=4 boot=b3", "register n4 cpus=4 boot=b4",
		"submit by=1000 nodes=2", "place 1 n1:0 n2:0", "ready 1.1 n1", "ready 1.1 n2", "migrate 1 by=1000 to=n3,n4", "register n3 cpus=4 boot=b5",
	} {
		d.play(line)
	}
	wanted := d.state.View().WantedAllocs("n4")
	if len(wanted) != 1 || wanted[0].Action != EndAlloc || wanted[0].Epoch != 2 {
		t.Fatalf("wanted on n4: %+v", wanted)
	}
	for _, line := range []string{"ended 1.2 n4 cause=unknown_alloc", "ended 1.1 n1 cause=exited", "ended 1.1 n2 cause=exited"} {
		d.play(line)
	}
	if job, _ := d.state.Job(1); job.Phase != Finished {
		t.Errorf("the job is %v: %+v", job.Phase, job.Run)
	}
}
