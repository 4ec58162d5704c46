package ctld

import (
	"bytes"
	"io"
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// gctld runs the command line and returns what it printed.
func gctld(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := Command("test")
	app.Writer, app.ErrWriter = &out, io.Discard
	err := app.Run(append([]string{"gctld"}, arguments...))
	return out.String(), err
}

// TestRecoverOneOfThree: two of three are lost; the one that is left continues
// with what it has, and the others join again.
func TestRecoverOneOfThree(t *testing.T) {
	c := startCluster(t, 3)
	var ids []uint32
	for range 10 {
		ids = append(ids, c.submit("c1", job(func(r *pb.SubmitRequest) { r.Spec.Hold = true })))
	}
	if out, err := gctld(t, "recover", "--inspect", "--data-dir", c.configs["c2"].DataDir); err == nil {
		t.Fatalf("of one that runs: %s", out)
	}
	for _, name := range []string{"c1", "c3", "c2"} {
		c.stop(name)
	}
	config := c.configs["c2"]
	flags := []string{"--data-dir", config.DataDir, "--peer-listen", config.PeerListen, "--name", "c2"}
	out, err := gctld(t, append([]string{"recover", "--inspect"}, flags...)...)
	for _, want := range []string{"controller   c2", "members      c1=", "c3=", "jobs waiting 10"} {
		if err != nil || !strings.Contains(out, want) {
			t.Fatalf("%v: %q is missing in\n%s", err, want, out)
		}
	}
	if _, err := gctld(t, append([]string{"recover"}, flags...)...); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Fatalf("without --yes: %v", err)
	}
	for range 2 { // once more does no harm
		out, err = gctld(t, append([]string{"recover", "--yes"}, flags...)...)
		if err != nil || !strings.Contains(out, "c2 is the only controller") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	c.start("c2")
	next := c.submit("c2", job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	if next < ids[9]+200_000 {
		t.Fatalf("the next job is %d", next)
	}
	if jobs := c.list("c2"); len(jobs) != 11 || jobs[0].GetId().GetJob() != ids[0] {
		t.Fatalf("%d jobs", len(jobs))
	}
	list, err := c.client("c2").ListPeers(soon(t), &pb.ListPeersRequest{})
	if err != nil || len(list.GetPeers()) != 1 || list.GetPeers()[0].GetAddress() != config.PeerListen {
		t.Fatalf("%v, %v", list, err)
	}
	joined := c.configs["c3"]
	joined.DataDir += "-new"
	c.configs["c3"] = joined
	c.start("c3")
	c.add("c3")
	if jobs := c.list("c3"); len(jobs) != 11 {
		t.Fatalf("%d jobs on the one that joined", len(jobs))
	}
}

// TestRecoverNothing: a directory without a controller is not made one.
func TestRecoverNothing(t *testing.T) {
	if _, err := gctld(t, "recover", "--yes", "--data-dir", shortDir(t)); err == nil || !strings.Contains(err.Error(), "no controller's data") {
		t.Fatal(err)
	}
}
