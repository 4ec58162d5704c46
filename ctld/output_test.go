package ctld

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestReadOutput: a client is joined with the node that has a job's output, while the job
// runs and after; a node joins only what it was asked for; without the node, or before the
// first run, what there is to do is said.
func TestReadOutput(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	node := newFakeNode(t, "n1", -1)
	leave := node.connect(conn)
	read := func(ctx context.Context, id *pb.JobId, what *pb.ReadOutput) pb.Controller_AttachClient {
		t.Helper()
		stream, err := pb.NewControllerClient(conn).Attach(ctx)
		if err == nil {
			err = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Attach{Attach: &pb.Attach{Job: id, Output: what}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	refused := func(id uint32, want codes.Code, words string) {
		t.Helper()
		answer, err := read(soon(t), &pb.JobId{Job: id}, &pb.ReadOutput{}).Recv()
		if status.Code(err) != want || !strings.Contains(err.Error(), words) {
			t.Errorf("job %d: %v, %v; want %v, %q", id, answer, err, want, words)
		}
	}
	join := func(order *pb.SendOutput, change func(*pb.TunnelOpen)) pb.NodeLink_TunnelClient {
		t.Helper()
		open := &pb.TunnelOpen{Alloc: order.Alloc, FromNode: "n1", Channel: order.Channel, Output: true}
		change(open)
		stream, err := pb.NewNodeLinkClient(conn).Tunnel(soon(t))
		if err == nil {
			err = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: open}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	asked := func() *pb.SendOutput {
		t.Helper()
		for {
			if order := prototest.Receive(t, "an order", node.orders).GetSendOutput(); order != nil {
				return order
			}
		}
	}
	held := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	id := submit(t, conn, job(func(r *pb.SubmitRequest) {
		r.Spec.NodeList, r.Spec.StandardError, r.Spec.WorkDirectory = "n1", "%x-%j.err", "/work"
	}))
	null := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.NodeList, r.Spec.StandardOutput = "n1", "/dev/null" }))
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
	waitState(t, conn, null, pb.JobState_JOB_STATE_RUNNING)
	refused(4242, codes.NotFound, "")
	refused(held, codes.FailedPrecondition, "pending")
	refused(null, codes.FailedPrecondition, "/dev/null")

	for _, round := range []string{"runs", "over", "forgotten"} {
		over := round != "runs"
		switch round {
		case "over":
			if _, err := pb.NewControllerClient(conn).Cancel(soon(t), &pb.CancelRequest{RequestId: uuid.NewString(), Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: id}}}}); err != nil {
				t.Fatal(err)
			}
			waitState(t, conn, id, pb.JobState_JOB_STATE_CANCELLED)
		case "forgotten": // but by history
			forget(t, conn, id)
		}
		what := &pb.ReadOutput{Error: over, Had: 7, Last: []byte("x"), Follow: true}
		client := read(soon(t), &pb.JobId{Job: id}, what)
		order := asked()
		path := "/work/slurm-" + fmt.Sprint(id) + ".out"
		if over {
			path = "/work/test-" + fmt.Sprint(id) + ".err"
		}
		if order.Path != path || !proto.Equal(order.Read, what) || order.Alloc.Job != id || order.Alloc.Epoch != 1 || order.Owner.GetUser() == "" {
			t.Errorf("%s: asked for %v, want %s", round, order, path)
		}
		if answer, err := client.Recv(); err != nil || answer.GetAttached().GetPath() != path || answer.GetAttached().GetNode() != "n1" {
			t.Errorf("attached: %v, %v", answer, err)
		}
		for _, change := range []func(*pb.TunnelOpen){
			func(o *pb.TunnelOpen) { o.FromNode = "n2" }, func(o *pb.TunnelOpen) { o.Channel = "x" }, func(o *pb.TunnelOpen) { o.Output = false },
			func(o *pb.TunnelOpen) { o.Alloc = &pb.AllocId{Job: id, Epoch: 2} },
		} {
			if answer, err := join(order, change).Recv(); err == nil {
				t.Errorf("joined with another request: %v", answer)
			}
		}
		end := join(order, func(*pb.TunnelOpen) {})
		say(t, end, "lines")
		hear(t, client, "lines")
	}
	leave()
	prototest.Eventually(t, "the node is away", func() bool {
		_, err := read(soon(t), &pb.JobId{Job: id}, &pb.ReadOutput{}).Recv()
		return err != nil && strings.Contains(err.Error(), "node n1, on which job "+fmt.Sprint(id)+" wrote its output, is away: its file there is /work/slurm-")
	})
}

// forget has the controllers forget a job that is over.
func forget(t *testing.T, conn *grpc.ClientConn, id uint32) {
	t.Helper()
	client := pb.NewControllerClient(conn)
	config, err := client.ShowConfig(soon(t), &pb.ShowConfigRequest{})
	if err != nil {
		t.Fatal(err)
	}
	config.Policy.MinJobAgeS = 1
	if _, err := client.ApplyPolicy(soon(t), &pb.ApplyPolicyRequest{Policy: config.GetPolicy()}); err != nil {
		t.Fatal(err)
	}
	prototest.Eventually(t, "the job is forgotten", func() bool {
		jobs, err := tryList(t, conn, &pb.ListJobsRequest{Filter: &pb.JobFilter{AllStates: true, Ids: []*pb.JobId{{Job: id}}}})
		return status.Code(err) == codes.NotFound || err == nil && len(jobs) == 0
	})
}
