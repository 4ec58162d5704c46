package leader

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

const pinnedImage = "docker://registry.lab.example/lab/tools:1@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// puller is a leader whose nodes are told to pull images.
type puller struct {
	*Leader
	t     *testing.T
	b     *book
	nodes map[string]*session.Session
	asked map[string]*pb.TendImages // by node: what it was told last, while it owes the answer
}

func newPuller(t *testing.T, nodes ...string) *puller {
	t.Helper()
	l, b := begin(t)
	p := &puller{Leader: l, t: t, b: b, nodes: map[string]*session.Session{}, asked: map[string]*pb.TendImages{}}
	for _, node := range nodes {
		p.nodes[node] = connect(t, l, b, node)
	}
	t.Cleanup(func() { l.End(); l.hooks.Wait() })
	return p
}

// gang submits a job with an image on some nodes.
func (p *puller) gang(nodes uint32, image string) uint32 {
	p.t.Helper()
	command, err := state.SubmitFromSpec(&pb.JobSpec{
		Name: "j", Script: []byte("#!/bin/sh\n"), WorkDirectory: "/", MemoryPerNodeBytes: 1 << 20, MinNodes: nodes, MaxNodes: nodes, Image: image,
		Environment: []string{"DOCKER_CONFIG=/home/ann/docker", "SECRET=of the job"},
	}, &pb.Identity{Uid: 1000, Gid: 1000, User: "ann"})
	if err != nil {
		p.t.Fatal(err)
	}
	return p.b.must(p.t, command).JobID
}

// plan makes a pass, and waits until nodes are told to pull.
func (p *puller) plan(told ...string) {
	p.t.Helper()
	plan(p.t, p.Leader)
	for _, node := range told {
		prototest.Eventually(p.t, node+" is told to pull", func() bool { return p.hear(node) != nil })
	}
}

// hear takes what a node is told of images.
func (p *puller) hear(node string) *pb.TendImages {
	for _, m := range messages(p.nodes[node]) {
		switch tend := m.GetTendImages(); {
		case tend.GetStop():
			delete(p.asked, node)
		case tend != nil:
			p.asked[node] = tend
		}
	}
	return p.asked[node]
}

// says has a node answer, and waits until the leader knows the outcome.
func (p *puller) says(node string, word *pb.ImagesWord) {
	p.t.Helper()
	word.Token = p.asked[node].GetToken()
	p.sessions.Said(word)
	if word.Done {
		delete(p.asked, node)
		prototest.Eventually(p.t, node+"'s pull is over", func() bool {
			p.pulls.mu.Lock()
			defer p.pulls.mu.Unlock()
			one := p.pulls.known[pullKey{1000, pinnedImage, node}]
			return one == nil || one.stop == nil
		})
	}
}

func (p *puller) job(id uint32) *state.Job {
	job, _ := p.b.View().Job(id)
	return job
}

func (p *puller) overlay(id uint32) state.Overlay {
	overlay, _ := p.Overlay(id)
	p.OverlaySaved(p.job(id), &overlay)
	return overlay
}

func TestGangPullsBeforeItHasNodes(t *testing.T) {
	p := newPuller(t, "n1", "n2")
	gang := p.gang(2, pinnedImage)
	p.plan("n1", "n2")
	if p.job(gang).Phase != state.Waiting {
		t.Fatal("the job has its nodes before they have its image")
	}
	order := p.asked["n1"]
	if order.Image != pinnedImage || order.User.GetUid() != 1000 || !slices.Equal(order.Environment, []string{"DOCKER_CONFIG=/home/ann/docker"}) {
		t.Fatalf("order: %v", order)
	}
	p.says("n1", &pb.ImagesWord{Progress: "1 of 7 layers are there"})
	prototest.Eventually(t, "its progress is shown", func() bool {
		overlay := p.overlay(gang)
		return overlay.Reason == "ImagePull" && strings.Contains(overlay.Detail, "comes to n[1-2] first") && strings.Contains(overlay.Detail, "n1: 1 of 7 layers are there")
	})
	// It has nothing meanwhile: others may have all of its nodes.
	other := p.gang(2, "")
	p.plan()
	if p.job(other).Phase != state.Running || p.job(gang).Phase != state.Waiting {
		t.Fatalf("while it waits, another job is %v, and it is %v", p.job(other).Phase, p.job(gang).Phase)
	}
	p.says("n1", &pb.ImagesWord{Done: true})
	p.plan()
	if p.job(gang).Phase != state.Waiting || !strings.Contains(p.overlay(gang).Detail, "comes to n2 first") {
		t.Fatalf("one node has it: %v, %+v", p.job(gang).Phase, p.overlay(gang))
	}
	p.says("n2", &pb.ImagesWord{Done: true})
	p.plan()
	if p.job(gang).Phase != state.Running {
		t.Fatalf("both nodes have it: %+v", p.overlay(gang))
	}
	// The next job of the user with the image starts at once.
	next := p.gang(2, pinnedImage)
	p.plan()
	if p.job(next).Phase != state.Running {
		t.Fatalf("a job whose image is there waits: %+v", p.overlay(next))
	}
}

func TestNodeThatCannotPullIsAvoided(t *testing.T) {
	p := newPuller(t, "n1", "n2", "n3")
	gang := p.gang(2, pinnedImage)
	p.plan("n1", "n2")
	p.says("n1", &pb.ImagesWord{Done: true, Error: "the disk is full"})
	p.plan()
	if p.job(gang).Phase != state.Waiting {
		t.Fatal("it does not wait for the other node")
	}
	p.says("n2", &pb.ImagesWord{Done: true})
	p.plan("n3")
	if overlay := p.overlay(gang); !strings.Contains(overlay.Detail, "avoids nodes to which its container image does not come: n1: the disk is full") {
		t.Fatalf("overlay: %+v", overlay)
	}
	p.says("n3", &pb.ImagesWord{Done: true})
	p.plan()
	if job := p.job(gang); job.Phase != state.Running || !slices.Equal(job.Nodes(), []string{"n2", "n3"}) {
		t.Fatalf("it is %v", job.Phase)
	}
	// A node that comes back is asked again.
	p.nodes["n1"] = connect(t, p.Leader, p.b, "n1")
	wide := p.gang(3, pinnedImage)
	p.plan("n1")
	p.says("n1", &pb.ImagesWord{Done: true})
	p.plan()
	if p.job(wide).Phase != state.Running {
		t.Fatalf("n1 has it now: %+v", p.overlay(wide))
	}
}

// TestImageThatComesNowhere: a node says why, as for a job on one node.
func TestImageThatComesNowhere(t *testing.T) {
	p := newPuller(t, "n1", "n2")
	gang := p.gang(2, pinnedImage)
	p.plan("n1", "n2")
	p.says("n1", &pb.ImagesWord{Done: true, Error: "no such image"})
	p.says("n2", &pb.ImagesWord{Done: true, Error: "no such image"})
	p.plan()
	if p.job(gang).Phase != state.Running {
		t.Fatalf("it waits for what does not come: %+v", p.overlay(gang))
	}
}

func TestPullThatNobodyWaitsForIsStopped(t *testing.T) {
	p := newPuller(t, "n1", "n2")
	gang := p.gang(2, pinnedImage)
	p.plan("n1", "n2")
	p.b.must(t, state.CancelJobs{Targets: []state.Target{{Job: gang}}, Privileged: true})
	p.plan()
	for _, node := range []string{"n1", "n2"} {
		prototest.Eventually(t, node+" is told to stop", func() bool { return p.hear(node) == nil })
	}
	p.hooks.Wait()
	if p.pulls.open != 0 || len(p.pulls.known) != 0 || len(p.pulls.waits) != 0 {
		t.Fatalf("left behind: %d open, %v, %v", p.pulls.open, p.pulls.known, p.pulls.waits)
	}
}

// TestPullsAreBounded: what has no turn yet has one later.
func TestPullsAreBounded(t *testing.T) {
	p := newPuller(t, "n1", "n2")
	gang := p.gang(2, pinnedImage)
	p.pulls.open = maxPullsOpen
	p.plan()
	if p.hear("n1") != nil || p.job(gang).Phase != state.Waiting {
		t.Fatal("there is no bound")
	}
	p.pulls.mu.Lock()
	p.pulls.open = maxPullsOpen - 1
	p.pulls.mu.Unlock()
	p.plan("n1")
	if p.hear("n2") != nil {
		t.Fatal("more come at once than may")
	}
	p.says("n1", &pb.ImagesWord{Done: true})
	p.plan("n2")
	p.says("n2", &pb.ImagesWord{Done: true})
	p.plan()
	if p.job(gang).Phase != state.Running {
		t.Fatalf("overlay: %+v", p.overlay(gang))
	}
	p.pulls.mu.Lock()
	defer p.pulls.mu.Unlock()
	if p.pulls.open != maxPullsOpen-1 {
		t.Fatalf("%d are open", p.pulls.open)
	}
}

// TestBusyNodeIsAskedAgain: that it pulls others is no failure.
func TestBusyNodeIsAskedAgain(t *testing.T) {
	before := pullAgain
	pullAgain = 0
	defer func() { pullAgain = before }()
	p := newPuller(t, "n1", "n2")
	gang := p.gang(2, pinnedImage)
	p.plan("n1", "n2")
	first := p.asked["n1"].Token
	p.sessions.Said(&pb.ImagesWord{Token: first, Done: true, Busy: true, Error: "busy"})
	prototest.Eventually(t, "n1 is asked again", func() bool { return p.hear("n1").GetToken() != first })
	p.says("n2", &pb.ImagesWord{Done: true})
	p.says("n1", &pb.ImagesWord{Done: true})
	p.plan()
	if p.job(gang).Phase != state.Running {
		t.Fatalf("overlay: %+v", p.overlay(gang))
	}
}

// TestPullsEndWithTheLead leaves nothing to the next leader's time.
func TestPullsEndWithTheLead(t *testing.T) {
	p := newPuller(t, "n1", "n2")
	p.gang(2, pinnedImage)
	ctx, cancel := context.WithCancel(context.Background())
	p.Plan(ctx, p.clock(), new(Memo))
	cancel()
	p.hooks.Wait()
	p.End()
	if len(p.pulls.known) != 0 || len(p.pulls.waits) != 0 {
		t.Fatalf("left behind: %v, %v", p.pulls.known, p.pulls.waits)
	}
}
