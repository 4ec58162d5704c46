package control

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// What is asked of the controller, for each way of asking.
func TestControlRequests(t *testing.T) {
	clienttest.FixTime(t)
	ids := func(numbers ...uint32) (filter *pb.JobFilter) {
		filter = &pb.JobFilter{}
		for _, number := range numbers {
			filter.Ids = append(filter.Ids, &pb.JobId{Job: number})
		}
		return filter
	}
	hold, release, requeue := pb.ControlVerb_CONTROL_VERB_HOLD, pb.ControlVerb_CONTROL_VERB_RELEASE, pb.ControlVerb_CONTROL_VERB_REQUEUE
	for line, want := range map[string][]proto.Message{
		"gcontrol hold 101":          {&pb.ControlRequest{Verb: hold, Filter: ids(101)}},
		"gcontrol HOLD 101,102":      {&pb.ControlRequest{Verb: hold, Filter: ids(101)}, &pb.ControlRequest{Verb: hold, Filter: ids(102)}},
		"gcontrol rel jobname=sweep": {&pb.ControlRequest{Verb: release, Filter: &pb.JobFilter{Names: []string{"sweep"}}}},
		"gcontrol requeue 108_[1-2]": {&pb.ControlRequest{Verb: requeue, Tasks: []*pb.ArrayTasks{{Job: 108, Ranges: []*pb.ArrayRange{{First: 1, Last: 2, Step: 1}}}}}},
		"gcontrol update NodeName=n[1-2] State=DRAIN Reason='no fan'": {&pb.UpdateNodeRequest{Names: "n[1-2]", Action: pb.NodeAction_NODE_ACTION_DRAIN, Reason: "no fan"}},
		"gcontrol update node n1 STATE=Down reason=gone":              {&pb.UpdateNodeRequest{Names: "n1", Action: pb.NodeAction_NODE_ACTION_DOWN, Reason: "gone"}},
		"gcontrol up nodename=n1 state=resume":                        {&pb.UpdateNodeRequest{Names: "n1", Action: pb.NodeAction_NODE_ACTION_RESUME}},
	} {
		stub := clienttest.StubCluster()
		clienttest.ServeStub(t, stub)
		if _, stderr, status := typed(t, t.Context(), nil, line); status != 0 {
			t.Errorf("%s: status %d, %s", line, status, stderr)
		}
		if len(stub.Writes) != len(want) {
			t.Errorf("%s: %d requests, want %d", line, len(stub.Writes), len(want))
			continue
		}
		for i := range want {
			if !proto.Equal(stub.Writes[i], want[i]) {
				t.Errorf("%s: asked %v, want %v", line, stub.Writes[i], want[i])
			}
		}
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestApply(t *testing.T) {
	clienttest.FixTime(t)
	changes := []*pb.PolicyChange{
		{Path: "kill_wait_s", Before: "30", After: "60"}, {Path: "partitions.gpu.max_time_s", Before: "UNLIMITED", After: "86400"}, {Path: "partitions.old", Before: "n[1-2]"},
	}
	table := "kill_wait_s                30        → 60\npartitions.gpu.max_time_s  UNLIMITED → 86400\npartitions.old             n[1-2]    → -\n"
	path := writeFile(t, "kill_wait = 60\n[[partition]]\nname = \"gpu\"\nmax_time = \"1-0\"\n")
	for _, c := range []struct {
		line    string
		changes []*pb.PolicyChange
		status  int
		out     string
		stderr  string
		dry     []bool // what was asked of the controller
	}{
		{"gcontrol apply --dry-run -f " + path, changes, 0, table, "", []bool{true}},
		{"gcontrol apply --yes -f " + path, changes, 0, table + "in force\n", "", []bool{true, false}},
		{"gcontrol apply -yQ " + path, changes, 0, table, "", []bool{true, false}},
		{"gcontrol apply -f " + path, changes, 1, table, "gcontrol: error: nothing was changed: add --yes to put it in force without being asked\n", []bool{true}},
		{"gcontrol apply -f " + path, nil, 0, "nothing to change: this policy is in force\n", "", []bool{true}},
		{"gcontrol apply", changes, 1, "", "gcontrol: error: no policy given: type gcontrol apply -f cluster.toml\n", nil},
		{"gcontrol apply -f /nonexistent.toml", changes, 1, "", "gcontrol: error: open /nonexistent.toml: no such file or directory\n", nil},
	} {
		stub := &clienttest.StubController{Changes: c.changes}
		clienttest.ServeStub(t, stub)
		out, stderr, status := typed(t, t.Context(), nil, c.line)
		if out != c.out || stderr != c.stderr || status != c.status {
			t.Errorf("%s: status %d\n%s%s", c.line, status, out, stderr)
		}
		if len(stub.Writes) != len(c.dry) {
			t.Errorf("%s: asked %d times, want %d", c.line, len(stub.Writes), len(c.dry))
			continue
		}
		for i, message := range stub.Writes {
			request := message.(*pb.ApplyPolicyRequest)
			if request.DryRun != c.dry[i] || request.Policy.KillWaitS != 60 || request.Policy.Partitions[0].MaxTimeS != 86400 {
				t.Errorf("%s: asked %v", c.line, request)
			}
		}
	}
}
