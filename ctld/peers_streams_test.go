package ctld

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// followers are the controllers that do not lead.
func (c *testCluster) followers() []string {
	leader := c.leader()
	var names []string
	for _, name := range c.names() {
		if name != leader {
			names = append(names, name)
		}
	}
	return names
}

// TestNodesBehindFollowers: nodes that are connected to controllers that do
// not lead register, renew their lease, run jobs, and their tunnels meet.
func TestNodesBehindFollowers(t *testing.T) {
	c := startCluster(t, 3)
	through := c.followers()
	first, second := newFakeNode(t, "n1", -1), newFakeNode(t, "n2", -1)
	t.Cleanup(first.connect(c.conns[through[0]]))
	t.Cleanup(second.connect(c.conns[through[1]]))
	id := c.submit(through[0], job(func(r *pb.SubmitRequest) { r.Spec.MinNodes = 2 }))
	conn := c.conns[through[1]]
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)

	first.renew()
	c.tunnel(id, second, through)
	if _, err := c.client(through[0]).Cancel(soon(t), &pb.CancelRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: id}}}}); err != nil {
		t.Fatal(err)
	}
	waitState(t, conn, id, pb.JobState_JOB_STATE_CANCELLED)
}

// tunnel sends 16 MiB each way between the two nodes of a job, whose ends call
// two different controllers.
func (c *testCluster) tunnel(id uint32, target *fakeNode, through []string) {
	c.t.Helper()
	t, run := c.t, &pb.AllocId{Job: id, Epoch: 1}
	open := func(via string, message *pb.TunnelOpen) pb.NodeLink_TunnelClient {
		stream, err := pb.NewNodeLinkClient(c.conns[via]).Tunnel(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: message}}); err != nil {
			t.Fatal(err)
		}
		return stream
	}
	a := open(through[0], &pb.TunnelOpen{Alloc: run, FromNode: "n1", TargetNode: "n2"})
	var channel string
	for channel == "" {
		channel = prototest.Receive(t, "the target is asked to connect", target.orders).GetConnect().GetChannel()
	}
	b := open(through[1], &pb.TunnelOpen{Alloc: run, FromNode: "n2", Channel: channel})
	data := make([]byte, 16<<20)
	_, _ = rand.Read(data)
	type end struct {
		got []byte
		err error
	}
	send := func(stream pb.NodeLink_TunnelClient) {
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 256<<10)
			if stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: rest[:n]}}) != nil {
				return
			}
			rest = rest[n:]
		}
		_ = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
		_ = stream.CloseSend()
	}
	receive := func(stream pb.NodeLink_TunnelClient, to chan<- end) {
		var got []byte
		for {
			message, err := stream.Recv()
			if err != nil {
				to <- end{got, err}
				return
			}
			got = append(got, message.GetData()...)
		}
	}
	ends := make(chan end, 2)
	for _, stream := range []pb.NodeLink_TunnelClient{a, b} {
		go send(stream)
		go receive(stream, ends)
	}
	for range 2 {
		if e := <-ends; !errors.Is(e.err, io.EOF) || !bytes.Equal(e.got, data) {
			t.Fatalf("an end got %d of %d bytes, then %v", len(e.got), len(data), e.err)
		}
	}
}

// TestFollowThroughFollower: changes arrive, and the stream ends with word of
// it when another controller leads.
func TestFollowThroughFollower(t *testing.T) {
	c := startCluster(t, 3)
	through := c.followers()[0]
	stream, err := c.client(through).Follow(soon(t), &pb.FollowRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.GetSynced() == nil {
		t.Fatalf("first: %v, %v", first, err)
	}
	id := c.submit(through, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	if event, err := stream.Recv(); err != nil || event.GetJob().GetId().GetJob() != id {
		t.Fatalf("after a submission: %v, %v", event, err)
	}
	if _, err := c.client(through).TransferLeadership(soon(t), &pb.TransferLeadershipRequest{To: through}); err != nil {
		t.Fatal(err)
	}
	for {
		_, err := stream.Recv()
		if status.Code(err) == codes.Unavailable {
			return
		}
		if err != nil {
			t.Fatalf("after another controller leads: %v", err)
		}
	}
}

// TestForwardedEndings: what a client ends is ended on the leader, deadlines
// and refusals come through, and so do the words of a refusal.
func TestForwardedEndings(t *testing.T) {
	c := startCluster(t, 3)
	through, leader := c.followers()[0], c.servers[c.leader()]
	_, err := c.client(through).Submit(soon(t), &pb.SubmitRequest{RequestId: "nonsense", Spec: job().GetSpec()})
	_, direct := c.client(leader.cluster.Name()).Submit(soon(t), &pb.SubmitRequest{RequestId: "nonsense", Spec: job().GetSpec()})
	if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != status.Convert(direct).Message() {
		t.Errorf("a refusal: %v, and from the leader itself %v", err, direct)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := c.client(through).Follow(ctx, &pb.FollowRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if !leader.cluster.feed.followed() {
		t.Fatal("nobody follows on the leader")
	}
	cancel()
	c.eventually("the leader hears that the client is gone", func() bool { return !leader.cluster.feed.followed() })
	short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	stream, err = c.client(through).Follow(short, &pb.FollowRequest{})
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a deadline: %v", err)
	}
	c.eventually("the leader hears of the deadline", func() bool { return !leader.cluster.feed.followed() })
	large := job(func(r *pb.SubmitRequest) {
		r.Spec.Script = append([]byte("#!/bin/sh\n"), bytes.Repeat([]byte("#"), 4<<20-100)...)
	})
	if _, err := c.client(through).Submit(soon(t), large); err != nil {
		t.Errorf("the largest script: %v", err)
	}
	jobs, err := tryList(t, c.conns[through], &pb.ListJobsRequest{Filter: all(), WithScript: true})
	if err != nil || len(jobs) != 1 || len(jobs[0].GetSpec().GetScript()) != len(large.GetSpec().GetScript()) {
		t.Errorf("its script listed: %d jobs, %v", len(jobs), err)
	}
}

// TestNoLoop: a request that was passed on is not passed on again, also by a
// controller that takes another one for the leader.
func TestNoLoop(t *testing.T) {
	c := startCluster(t, 3)
	followers := c.followers()
	conn := linkTo(t, c, followers[0], followers[1])
	ctx := asCaller(soon(t), "uid 0 root")
	_, err := pb.NewControllerClient(conn).Submit(ctx, job())
	if status.Code(err) != codes.Unavailable {
		t.Fatalf("passed on to a controller that does not lead: %v", err)
	}
}
