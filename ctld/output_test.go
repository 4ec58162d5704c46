package ctld

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
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

	for _, over := range []bool{false, true} {
		if over {
			if _, err := pb.NewControllerClient(conn).Cancel(soon(t), &pb.CancelRequest{RequestId: uuid.NewString(), Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: id}}}}); err != nil {
				t.Fatal(err)
			}
			waitState(t, conn, id, pb.JobState_JOB_STATE_CANCELLED)
		}
		what := &pb.ReadOutput{Error: over, Had: 7, Last: []byte("x"), Follow: true}
		client := read(soon(t), &pb.JobId{Job: id}, what)
		order := asked()
		path := "/work/slurm-" + fmt.Sprint(id) + ".out"
		if over {
			path = "/work/test-" + fmt.Sprint(id) + ".err"
		}
		if order.Path != path || !proto.Equal(order.Read, what) || order.Alloc.Job != id || order.Alloc.Epoch != 1 || order.Owner.GetUser() == "" {
			t.Errorf("over %v: asked for %v, want %s", over, order, path)
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
