package control

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// fencedCluster has three jobs on n4, which does not respond.
func fencedCluster() *clienttest.StubController {
	stub := clienttest.StubCluster()
	on := func(id uint32, requeue, completing bool, nodes ...string) *pb.Job {
		job := &pb.Job{
			Id: &pb.JobId{Job: id}, State: pb.JobState_JOB_STATE_RUNNING, Completing: completing,
			Owner: &pb.Identity{User: "ada"}, Spec: &pb.JobSpec{Name: "train", Requeue: requeue},
		}
		for _, node := range nodes {
			job.Allocation = append(job.Allocation, &pb.NodeAllocation{Node: node})
		}
		return job
	}
	stub.Jobs = []*pb.Job{on(7, true, false, "n3", "n4"), on(8, false, false, "n4"), on(9, false, true, "n4"), on(10, true, false, "n3")}
	return stub
}

func TestFence(t *testing.T) {
	want := &pb.UpdateNodeRequest{Names: "n4", Action: pb.NodeAction_NODE_ACTION_FENCED, Reason: fenceReason}
	for line, row := range map[string]struct {
		status int
		wrote  *pb.UpdateNodeRequest
		says   []string
	}{
		"gcontrol fence n4 --yes": {0, want, []string{
			"job 7 (ada, train) is requeued: it starts over; first it is ended on n3\n",
			"job 8 (ada, train) is ended: as NODE_FAIL, because it was submitted without --requeue\n",
			"job 9 (ada, train) is over: its end was decided before\n", "State=RESUME",
		}},
		"gcontrol --yes fence n4 reason=burnt": {0, &pb.UpdateNodeRequest{Names: "n4", Action: want.Action, Reason: "burnt"}, nil},
		"gcontrol fence n4 --yes --json": {0, want, []string{
			`"outcome":"requeued"`, `"fenced":true`, `"job_id":8`,
		}},
		"gcontrol fence n4":             {1, nil, []string{"should it run on, its jobs run twice", "add --yes to declare n4 off"}},
		"gcontrol fence n3 --yes":       {1, nil, []string{"node n3 responds"}},
		"gcontrol fence n[3-4] --yes":   {1, nil, []string{"node n3 responds"}},
		"gcontrol fence nix --yes":      {1, nil, []string{"Node nix not found"}},
		"gcontrol fence":                {1, nil, []string{"too few arguments"}},
		"gcontrol fence n4 now --yes":   {1, nil, []string{"too many arguments"}},
		"gcontrol fence 'n[4-' --yes":   {1, nil, nil},
		"gcontrol fence n4 why=x --yes": {1, nil, []string{"too many arguments"}},
	} {
		stub := fencedCluster()
		clienttest.ServeStub(t, stub)
		stdout, stderr, status := typed(t, t.Context(), nil, line)
		if status != row.status {
			t.Errorf("%s: status %d, %s", line, status, stderr)
		}
		for _, text := range row.says {
			if !strings.Contains(stdout+stderr, text) {
				t.Errorf("%s: %q is missing in\n%s%s", line, text, stdout, stderr)
			}
		}
		if strings.Contains(stdout, "job 10 ") {
			t.Errorf("%s speaks of a job elsewhere", line)
		}
		switch {
		case row.wrote == nil && len(stub.Writes) > 0:
			t.Errorf("%s: asked %v", line, stub.Writes)
		case row.wrote != nil && (len(stub.Writes) != 1 || !proto.Equal(stub.Writes[0], row.wrote)):
			t.Errorf("%s: asked %v, want %v", line, stub.Writes, row.wrote)
		}
	}
}
