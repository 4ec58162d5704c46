package ctld

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestAttach: a client is joined with the node of its job's script, for the run
// that is there; a job that does not run is refused at once.
func TestAttach(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	node := newFakeNode(t, "n1", -1)
	t.Cleanup(node.connect(conn))
	attach := func(ctx context.Context, message *pb.TunnelMessage) pb.Controller_AttachClient {
		stream, err := pb.NewControllerClient(conn).Attach(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(message); err != nil {
			t.Fatal(err)
		}
		return stream
	}
	to := func(id uint32) *pb.TunnelMessage {
		return &pb.TunnelMessage{What: &pb.TunnelMessage_Attach{Attach: &pb.Attach{Job: &pb.JobId{Job: id}}}}
	}
	refused := func(message *pb.TunnelMessage, want codes.Code) {
		t.Helper()
		if answer, err := attach(soon(t), message).Recv(); status.Code(err) != want {
			t.Errorf("%v, %v; want %v", answer, err, want)
		}
	}
	held := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	id := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.NodeList = "n1" }))
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
	refused(to(4242), codes.NotFound)
	refused(to(0), codes.InvalidArgument)
	refused(to(held), codes.FailedPrecondition)
	refused(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: []byte("x")}}, codes.InvalidArgument)

	client := attach(soon(t), to(id))
	answer, err := client.Recv()
	if attached := answer.GetAttached(); err != nil || attached.GetNode() != "n1" || attached.GetAlloc().GetJob() != id || attached.GetAlloc().GetEpoch() != 1 {
		t.Fatalf("%v, %v", answer, err)
	}
	var asked *pb.Connect
	for order := range node.orders {
		if asked = order.GetConnect(); asked != nil {
			break
		}
	}
	if !asked.GetClient() || asked.GetAlloc().GetJob() != id {
		t.Fatalf("asked for %v", asked)
	}
	join := func(ctx context.Context, from string) pb.NodeLink_TunnelClient {
		stream, err := pb.NewNodeLinkClient(conn).Tunnel(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{
			Alloc: asked.Alloc, FromNode: from, Channel: asked.Channel,
		}}}); err != nil {
			t.Fatal(err)
		}
		return stream
	}
	if _, err := join(soon(t), "n2").Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another node joins: %v", err)
	}
	end := join(soon(t), "n1")
	say(t, client, "ls")
	hear(t, end, "ls")
	say(t, end, "files")
	hear(t, client, "files")
	if err := end.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Refused{Refused: &pb.Refused{Reason: "it is being saved", Later: true}}}); err != nil {
		t.Fatal(err)
	}
	if answer, err := client.Recv(); err != nil || !answer.GetRefused().GetLater() {
		t.Errorf("a refusal comes as %v, %v", answer, err)
	}
	// A client that claims to be a node's end is none.
	say(t, client, "x")
	hear(t, end, "x")
	if err := client.Send(to(id)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("attached twice: %v", err)
	}
}
