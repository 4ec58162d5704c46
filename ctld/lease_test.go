package ctld

import (
	"os"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestFencedNode: a job on a node that falls silent resumes there as far as
// anybody knows, and is started elsewhere only once somebody vouches that the
// machine is off. When it comes back after all, the former run is ended.
func TestFencedNode(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	shortenLease(t, client)
	first := newFakeNode(t, "n1", -1)
	leave := first.connect(conn)
	id := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Requeue = true }))
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
	first.renew()
	fence := &pb.UpdateNodeRequest{Names: "n1", Action: pb.NodeAction_NODE_ACTION_FENCED, Reason: "its power was cut"}
	if _, err := client.UpdateNode(soon(t), fence); status.Code(err) != codes.FailedPrecondition {
		t.Fatalf("a node that responds was fenced: %v", err)
	}
	leave()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		_, err := client.UpdateNode(soon(t), fence)
		if err == nil {
			break
		}
		if status.Code(err) != codes.FailedPrecondition || time.Now().After(deadline) {
			t.Fatal(err)
		}
		if job := list(t, conn, all())[0]; job.GetState() != pb.JobState_JOB_STATE_RUNNING || job.GetNodeList() != "n1" {
			t.Fatalf("before anybody vouched for it: %v on %s", job.GetState(), job.GetNodeList())
		}
	}
	second := newFakeNode(t, "n2", 0)
	t.Cleanup(second.connect(conn))
	done := waitState(t, conn, id, pb.JobState_JOB_STATE_COMPLETED)
	if done.GetNodeList() != "n2" || done.GetEpoch() != 2 || second.begun()[id] != 1 {
		t.Fatalf("after it was fenced: epoch %d on %s", done.GetEpoch(), done.GetNodeList())
	}
	t.Cleanup(first.connect(conn)) // with the allocation of epoch 1
	prototest.Eventually(t, "the former run is ended", func() bool { return len(first.kept()) == 0 })
	if first.begun()[id] != 1 || second.begun()[id] != 1 {
		t.Fatalf("begun: %v and %v", first.begun(), second.begun())
	}
}

// TestSecondDaemonOfANode: it is refused, and the first one's job continues.
func TestSecondDaemonOfANode(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	node := newFakeNode(t, "n1", -1)
	t.Cleanup(node.connect(conn))
	id := submit(t, conn, job())
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
	stream, err := pb.NewNodeLinkClient(conn).Session(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	inventory := node.inventory()
	inventory.BootId = "boot-2"
	register := &pb.Register{Node: "n1", Instance: "another", Inventory: inventory}
	if err := stream.Send(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: register}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.AlreadyExists {
		t.Fatalf("a second daemon was answered: %v", err)
	}
	if job := list(t, conn, all())[0]; job.GetState() != pb.JobState_JOB_STATE_RUNNING {
		t.Fatalf("the job is %v", job.GetState())
	}
}

// shortenLease makes nodes count as silent after six seconds: long enough for
// one request to a node that has just renewed its lease.
func shortenLease(t *testing.T, client pb.ControllerClient) {
	t.Helper()
	config, err := client.ShowConfig(soon(t), &pb.ShowConfigRequest{})
	if err != nil {
		t.Fatal(err)
	}
	config.GetPolicy().LeaseS = 6
	_, err = client.ApplyPolicy(soon(t), &pb.ApplyPolicyRequest{Policy: config.GetPolicy()})
	if status.Code(err) == codes.PermissionDenied && os.Getuid() != 0 {
		t.Skipf("needs root, who is an administrator: changes the policy: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
