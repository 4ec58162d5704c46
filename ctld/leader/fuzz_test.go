package leader

import (
	"context"
	"log/slog"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// Steps of FuzzLeader. Any other byte is one of them too.
const (
	stepConnect = iota
	stepReady
	stepEnded
	stepPlan
	stepDispatch
	stepSubmit
	stepCancel
	stepLost
	stepSucceed
	steps
)

// FuzzLeader plays any order of what two nodes say and what the loops do: the
// state stays sound, an order is sent once in a session, a node is told to
// start only what is wanted there, which what it has said is over is not.
func FuzzLeader(f *testing.F) {
	alloc := prototest.Marshal(&pb.AllocEnded{Alloc: &pb.AllocId{Job: 1, Epoch: 1}, Cause: pb.EndCause_END_CAUSE_EXITED, ExitCode: math.MaxUint32, Detail: "\u009b"})
	gone := prototest.Marshal(&pb.AllocEnded{Alloc: &pb.AllocId{Job: 1, Epoch: 1}, Cause: pb.EndCause_END_CAUSE_NODE_FAULT})
	running := prototest.Marshal(&pb.Register{Running: []*pb.RunningAlloc{{Alloc: &pb.AllocId{Job: 1, Epoch: 1}, Ready: true}, {Alloc: &pb.AllocId{Job: 9, Epoch: 2}}}})
	story := func(kinds ...byte) []byte {
		messages := make([][]byte, len(kinds))
		for i, kind := range kinds {
			switch kind & 0x7f {
			case stepReady, stepEnded:
				messages[i] = alloc
			case stepConnect:
				messages[i] = running
			}
		}
		return prototest.Join(kinds, messages)
	}
	f.Add(story(stepSubmit, stepPlan, stepDispatch, stepReady, stepDispatch, stepEnded, stepDispatch, stepPlan, stepDispatch))
	f.Add(story(stepSubmit, stepPlan, stepSucceed, stepDispatch, stepConnect, stepDispatch, stepCancel, stepDispatch, stepEnded|0x80, stepEnded))
	f.Add(story(stepSubmit, stepSubmit, stepPlan, stepLost, stepConnect, stepDispatch, stepReady|0x80, stepEnded, stepDispatch))
	f.Add(prototest.Join([]byte{stepSubmit, stepPlan, stepDispatch, stepEnded, stepPlan, stepDispatch}, [][]byte{nil, nil, nil, gone, nil, nil}))
	for _, data := range prototest.Hostile[pb.AllocEnded]() {
		f.Add(prototest.Join([]byte{stepSubmit, stepPlan, stepDispatch, stepEnded, stepDispatch}, [][]byte{nil, nil, nil, data, nil}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, b := begin(t)
		play := &played{t: t, b: b, l: l}
		play.connect("n1", &pb.Register{})
		play.connect("n2", &pb.Register{})
		kinds, messages := prototest.Split(data, 40)
		for i := range messages {
			play.step(kinds[i], messages[i])
			if err := b.state.Check(); err != nil {
				t.Fatalf("after step %d (%d): %v", i, kinds[i]&0x7f%steps, err)
			}
		}
	})
}

type played struct {
	t *testing.T
	b *book
	l *Leader
}

func (p *played) connect(node string, register *pb.Register) {
	register.Node = node
	register.Inventory = &pb.Inventory{Cpus: 8, MemoryBytes: 8 << 30, BootId: "b"}
	p.b.must(p.t, state.RegisterFromMessage(register))
	p.l.sessions.Connect(context.Background(), register, &pb.Registered{})
}

func (p *played) step(kind byte, data []byte) {
	node := "n1"
	if kind >= 0x80 {
		node = "n2"
	}
	ctx, s := context.Background(), p.l.sessions.Get(node)
	switch kind & 0x7f % steps {
	case stepConnect:
		register := &pb.Register{}
		if proto.Unmarshal(data, register) == nil {
			p.connect(node, register)
		}
	case stepReady:
		ready := &pb.AllocReady{}
		if proto.Unmarshal(data, ready) == nil && s != nil {
			say(p.t, p.l.Ready(ctx, s, ready))
			commit(p.t, p.l)
		}
	case stepEnded:
		ended := &pb.AllocEnded{}
		if proto.Unmarshal(data, ended) == nil && s != nil {
			say(p.t, p.l.Ended(ctx, s, ended))
			commit(p.t, p.l)
		}
	case stepPlan:
		p.l.Plan(ctx, time.Now(), new(Memo))
	case stepDispatch:
		dispatch(p.l)
		p.take("n1")
		p.take("n2")
	case stepSubmit:
		submitGang(p.t, p.b)
		submit(p.t, p.b)
	case stepCancel:
		p.b.must(p.t, state.CancelJobs{Targets: []state.Target{{Job: 1}}, Privileged: true})
	case stepLost:
		p.b.must(p.t, state.NodesLost{Names: []string{node}})
	case stepSucceed:
		p.l = New(p.b, nil, slog.New(slog.DiscardHandler))
		p.b.changed = p.l.Changed
		p.l.leading.Store(true)
		p.connect("n1", &pb.Register{})
	}
}

// take looks at the orders that a node gets.
func (p *played) take(node string) {
	s := p.l.sessions.Get(node)
	if s == nil {
		return
	}
	seen := map[session.Alloc]bool{}
	for _, message := range orders(s) {
		if _, err := proto.Marshal(message); err != nil {
			p.t.Fatalf("an order that cannot be sent: %v", err)
		}
		start := message.GetStartAlloc()
		if start == nil {
			continue
		}
		alloc := session.AllocOf(start.GetAlloc())
		ref := state.AllocRef{Job: alloc.Job, Epoch: alloc.Epoch, Node: node}
		if _, live := p.b.View().LiveAlloc(ref); live == nil || seen[alloc] {
			p.t.Fatalf("%s is told to start %v, which is not wanted there, or twice", node, alloc)
		}
		seen[alloc] = true
	}
}
