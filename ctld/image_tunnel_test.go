package ctld

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// imageBed is a job that was saved on n2, whose run there is over, and that resumes
// elsewhere.
type imageBed struct {
	t      *testing.T
	conn   *grpc.ClientConn
	nodes  map[string]*fakeNode
	image  *pb.Image // as the log names it
	saving *pb.AllocId
}

func newImageBed(t *testing.T) *imageBed {
	server := startServer(t, configIn(shortDir(t)))
	b := &imageBed{t: t, conn: connectTo(t, server.Addresses()[0], ""), nodes: map[string]*fakeNode{}}
	b.connect("n2") // alone, so that the job starts there
	b.save()
	b.connect("n1")
	b.connect("n3")
	return b
}

func (b *imageBed) connect(name string) {
	b.nodes[name] = newFakeNode(b.t, name, -1)
	b.nodes[name].slow = name == "n1"
	b.t.Cleanup(b.nodes[name].connect(b.conn))
}

// save submits a job, which starts on n2, and has it saved there.
func (b *imageBed) save() {
	b.t.Helper()
	id := submit(b.t, b.conn, job(func(r *pb.SubmitRequest) { r.Spec.Requeue = true }))
	waitState(b.t, b.conn, id, pb.JobState_JOB_STATE_RUNNING)
	results, err := pb.NewControllerClient(b.conn).SaveJobs(soon(b.t), &pb.SaveJobsRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: id}}}})
	if err != nil || len(results.Results) != 1 || results.Results[0].GetError() != "" {
		b.t.Fatalf("saving job %d: %v, %v", id, results, err)
	}
	order := b.told("n2", func(m *pb.ControllerMessage) bool { return m.GetSaveAlloc() != nil }).GetSaveAlloc()
	digest := sha256.Sum256([]byte("manifest"))
	b.saving = order.Alloc
	b.image = &pb.Image{Alloc: order.Alloc, Number: order.Number, Digest: digest[:], Node: "n2", Bytes: 5}
	b.nodes["n2"].send(&pb.NodeMessage{What: &pb.NodeMessage_AllocSaved{AllocSaved: &pb.AllocSaved{Alloc: order.Alloc, Number: order.Number, Image: b.image}}})
	b.told("n2", func(m *pb.ControllerMessage) bool { return m.GetSavedAcknowledged() != nil })
}

// told waits for the next message to a node that is as wanted.
func (b *imageBed) told(node string, wanted func(*pb.ControllerMessage) bool) *pb.ControllerMessage {
	b.t.Helper()
	for {
		if m := prototest.Receive(b.t, "a message to "+node, b.nodes[node].orders); wanted(m) {
			return m
		}
	}
}

// open opens a tunnel.
func (b *imageBed) open(message *pb.TunnelOpen) pb.NodeLink_TunnelClient {
	b.t.Helper()
	stream, err := pb.NewNodeLinkClient(b.conn).Tunnel(soon(b.t))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: message}}); err != nil {
		b.t.Fatal(err)
	}
	return stream
}

func (b *imageBed) refused(name string, bad *pb.TunnelOpen) {
	b.t.Helper()
	_, err := b.open(bad).Recv()
	switch status.Code(err) {
	case codes.PermissionDenied, codes.NotFound, codes.FailedPrecondition:
	default:
		b.t.Errorf("%s: %v", name, err)
	}
}

// asked is the order that the node with the image gets because of a tunnel.
func (b *imageBed) asked(facts bool) *pb.SendImage {
	b.t.Helper()
	order := b.told("n2", func(m *pb.ControllerMessage) bool { return m.GetSendImage() != nil }).GetSendImage()
	if image := order.GetImage(); image.GetAlloc().GetJob() != b.image.Alloc.Job || string(image.GetDigest()) != string(b.image.Digest) || order.GetFacts() != facts {
		b.t.Errorf("asked for %v", order)
	}
	return order
}

func without(image *pb.Image, change func(*pb.Image)) *pb.Image {
	other := &pb.Image{Alloc: image.Alloc, Number: image.Number, Digest: image.Digest, Node: image.Node, Store: image.Store, Bytes: image.Bytes}
	change(other)
	return other
}

// TestImageTunnel: a node that is asked about an image gets its facts, until it has
// answered, and nothing else of it; the one that resumes from it gets the image,
// until the job is there. Every other node, run and image is refused, also to a
// node on which the job runs.
func TestImageTunnel(t *testing.T) {
	b := newImageBed(t)
	old := b.saving
	facts := func(node string) *pb.TunnelOpen {
		return &pb.TunnelOpen{Alloc: old, FromNode: node, TargetNode: "n2", Image: b.image, Facts: true}
	}
	whole := func(node string, epoch uint32) *pb.TunnelOpen {
		return &pb.TunnelOpen{Alloc: &pb.AllocId{Job: old.Job, Epoch: epoch}, FromNode: node, TargetNode: "n2", Image: b.image}
	}
	b.refused("a node that was told nothing", whole("n1", old.Epoch))
	b.refused("facts, and nobody asked", facts("n1"))
	b.refused("one on which the job runs, and was not restored", whole("n2", old.Epoch))

	b.nodes["n2"].end(alloc{old.Job, old.Epoch}, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 9)
	question := b.told("n1", func(m *pb.ControllerMessage) bool { return m.GetAskRestore() != nil }).GetAskRestore()
	b.refused("memory, for a node that was only asked", whole("n1", old.Epoch))
	b.refused("memory, for a run that is yet to be", whole("n1", old.Epoch+1))
	for what, change := range map[string]func(*pb.Image){
		"another digest": func(i *pb.Image) { i.Digest = make([]byte, 32) },
		"no digest":      func(i *pb.Image) { i.Digest = nil },
	} {
		other := facts("n1")
		other.Image = without(b.image, change)
		b.refused("facts of "+what, other)
	}
	elsewhere := facts("n1")
	elsewhere.TargetNode = "n3"
	b.refused("facts from a node that did not make it", elsewhere)
	claimed := facts("n1")
	claimed.Image = without(b.image, func(i *pb.Image) { i.Alloc = &pb.AllocId{Job: old.Job + 1, Epoch: 1} })
	a := b.open(claimed) // what it says of the image is not passed on
	order := b.asked(true)
	b.refused("another node joins", &pb.TunnelOpen{FromNode: "n1", Channel: order.Channel, Image: b.image})
	b.refused("another image joins", &pb.TunnelOpen{FromNode: "n2", Channel: order.Channel, Image: without(b.image, func(i *pb.Image) { i.Digest = []byte{2} })})
	b.refused("a job joins", &pb.TunnelOpen{Alloc: old, FromNode: "n2", Channel: order.Channel})
	c := b.open(&pb.TunnelOpen{FromNode: "n2", Channel: order.Channel, Image: order.Image, Facts: true})
	say(t, a, "what is it like?")
	hear(t, c, "what is it like?")
	say(t, c, "so")
	hear(t, a, "so")

	b.nodes["n1"].send(&pb.NodeMessage{What: &pb.NodeMessage_RestoreAnswer{RestoreAnswer: &pb.RestoreAnswer{Token: question.Token, Can: true}}})
	start := b.told("n1", func(m *pb.ControllerMessage) bool { return m.GetStartAlloc() != nil }).GetStartAlloc()
	if string(start.GetRestore().GetDigest()) != string(b.image.Digest) {
		t.Fatalf("it is told to start %v", start)
	}
	epoch := start.Alloc.Epoch
	b.refused("facts, once it has answered", facts("n1"))
	b.refused("a node that was not chosen", whole("n3", epoch))
	b.refused("the run of before", whole("n1", old.Epoch))
	other := whole("n1", epoch)
	other.Image = without(b.image, func(i *pb.Image) { i.Digest = make([]byte, 32) })
	b.refused("another digest", other)
	straight := whole("n1", epoch)
	straight.Direct = make([]byte, 31)
	if _, err := b.open(straight).Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("half a sum of a certificate: %v", err)
	}
	straight.Direct = make([]byte, 32)
	straight.Direct[7] = 1
	a = b.open(straight)
	order = b.asked(false)
	if !bytes.Equal(order.Direct, straight.Direct) {
		t.Errorf("the node that has the image is told of the certificate %x", order.Direct)
	}
	c = b.open(&pb.TunnelOpen{FromNode: "n2", Channel: order.Channel, Image: order.Image})
	offer := &pb.TunnelMessage{What: &pb.TunnelMessage_Direct{Direct: &pb.Direct{Address: "10.0.0.5:7900"}}}
	if err := c.Send(offer); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Recv(); err != nil || got.GetDirect().GetAddress() != "10.0.0.5:7900" {
		t.Errorf("it is offered %v, %v", got, err)
	}
	say(t, a, "which chunks?")
	hear(t, c, "which chunks?")

	b.nodes["n1"].send(&pb.NodeMessage{What: &pb.NodeMessage_AllocReady{AllocReady: &pb.AllocReady{Alloc: start.Alloc}}})
	waitState(t, b.conn, old.Job, pb.JobState_JOB_STATE_RUNNING)
	prototest.Eventually(t, "the allocation is there", func() bool {
		_, err := b.open(whole("n1", epoch)).Recv()
		return status.Code(err) == codes.PermissionDenied
	})
}
