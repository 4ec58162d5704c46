package ctld

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestImageTunnel: a node that was asked about an image, or told to go on with
// it, gets it from the node that has it; no other node does, and no other image.
func TestImageTunnel(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	first, second := newFakeNode(t, "n1", -1), newFakeNode(t, "n2", -1)
	t.Cleanup(first.connect(conn))
	t.Cleanup(second.connect(conn))
	open := func(message *pb.TunnelOpen) pb.NodeLink_TunnelClient {
		stream, err := pb.NewNodeLinkClient(conn).Tunnel(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: message}}); err != nil {
			t.Fatal(err)
		}
		return stream
	}
	image := func(name byte) *pb.Image {
		return &pb.Image{Part: &pb.PartId{Job: 7, Epoch: 1}, Digest: []byte{name}, Node: "n2", Number: 1}
	}
	refused := func(name string, bad *pb.TunnelOpen) {
		t.Helper()
		_, err := open(bad).Recv()
		switch status.Code(err) {
		case codes.PermissionDenied, codes.NotFound, codes.FailedPrecondition:
		default:
			t.Errorf("%s: %v", name, err)
		}
	}
	wanted := &pb.TunnelOpen{FromNode: "n1", TargetNode: "n2", Image: image(1)}
	refused("a node that was told nothing", wanted)
	server.leader.Sessions().Get("n1").Send(&pb.ControllerMessage{What: &pb.ControllerMessage_AskRestore{
		AskRestore: &pb.AskRestore{Token: "t", Image: image(1)}}})
	refused("another node", &pb.TunnelOpen{FromNode: "n2", TargetNode: "n1", Image: image(1)})
	refused("another image", &pb.TunnelOpen{FromNode: "n1", TargetNode: "n2", Image: image(2)})
	refused("no image", &pb.TunnelOpen{FromNode: "n1", TargetNode: "n2", Image: &pb.Image{}})

	a := open(wanted)
	var asked *pb.SendImage
	for order := range second.orders {
		if asked = order.GetSendImage(); asked != nil {
			break
		}
	}
	if asked.GetImage().GetNode() != "n2" || len(asked.GetImage().GetDigest()) != 1 {
		t.Errorf("asked for %v", asked)
	}
	refused("another node joins", &pb.TunnelOpen{FromNode: "n1", Channel: asked.GetChannel(), Image: image(1)})
	refused("another image joins", &pb.TunnelOpen{FromNode: "n2", Channel: asked.GetChannel(), Image: image(2)})
	refused("a job joins", &pb.TunnelOpen{Part: image(1).Part, FromNode: "n2", Channel: asked.GetChannel()})
	// A job that is there goes on fetching its own images under another leader,
	// and no other job's.
	id := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.NodeList = "n1" }))
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
	own := &pb.Image{Part: &pb.PartId{Job: id, Epoch: 0}, Digest: []byte{9}, Node: "n2"}
	here := &pb.PartId{Job: id, Epoch: 1}
	refused("another job's image", &pb.TunnelOpen{Part: here, FromNode: "n1", TargetNode: "n2", Image: image(2)})
	refused("from where the job is not", &pb.TunnelOpen{Part: here, FromNode: "n2", TargetNode: "n1", Image: own})
	open(&pb.TunnelOpen{Part: here, FromNode: "n1", TargetNode: "n2", Image: own})
	for order := range second.orders {
		if sent := order.GetSendImage(); sent != nil {
			if sent.Image.Part.Job != id {
				t.Errorf("asked for %v", sent)
			}
			break
		}
	}
	b := open(&pb.TunnelOpen{FromNode: "n2", Channel: asked.GetChannel(), Image: image(1)})
	say(t, a, "which chunks?")
	hear(t, b, "which chunks?")
	say(t, b, "these")
	hear(t, a, "these")
}
