package raftmode

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// node is a small gnoded: it keeps a session with one controller after
// another, runs parts for as long as they take, and reports each end until it
// is acknowledged.
type node struct {
	c     *cluster
	name  string
	begin time.Time
	truth *truth

	mu    sync.Mutex
	parts map[partKey]*part
	out   chan *pb.NodeMessage // of the present session; nil = none
}

type partKey struct{ job, epoch uint32 }

type part struct {
	key    partKey
	timer  *time.Timer
	result *pb.PartEnded // nil while it runs
}

// truth is which runs of a job there are on all nodes.
type truth struct {
	mu      sync.Mutex
	running map[uint32]string
	started map[string]bool
	wrong   []string
	waitOf  func(name string) wait // what a job waits for
}

func (t *truth) starts(node string, key partKey, w wait) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.running[w.job]; other != "" {
		t.wrong = append(t.wrong, fmt.Sprintf("too early: job %d starts while %s runs, for which it waits", key.job, other))
	}
	if early := time.Until(w.begin); early > 0 {
		t.wrong = append(t.wrong, fmt.Sprintf("too early: job %d starts %v before its begin", key.job, early))
	}
	run := fmt.Sprintf("%d.%d", key.job, key.epoch)
	if other := t.running[key.job]; other != "" {
		t.wrong = append(t.wrong, fmt.Sprintf("doubled: %s runs on %s while %s does", run, node, other))
	}
	if t.started[run] {
		t.wrong = append(t.wrong, fmt.Sprintf("doubled: %s is started once more, on %s", run, node))
	}
	t.running[key.job], t.started[run] = run+" on "+node, true
}

func (t *truth) ends(key partKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, key.job)
}

// serve keeps the node connected until ctx ends.
func (n *node) serve(ctx context.Context) {
	config := n.c.tls(n.c.bundle(pki.Node, n.name))
	for i := 0; ctx.Err() == nil; i++ {
		conn := n.c.connect(n.name, n.c.names[i%len(n.c.names)], config)
		n.session(ctx, conn)
		_ = conn.Close()
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func (n *node) session(ctx context.Context, conn *grpc.ClientConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewNodeLinkClient(conn).Session(ctx)
	if err != nil {
		return
	}
	out := n.register()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		defer cancel()
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case m := <-out:
				if stream.Send(m) != nil {
					return
				}
			case <-tick.C:
				if stream.Send(&pb.NodeMessage{What: &pb.NodeMessage_RenewLease{RenewLease: &pb.RenewLease{SentBoottimeNs: int64(time.Since(n.begin))}}}) != nil {
					return
				}
			}
		}
	}()
	for {
		m, err := stream.Recv()
		if err != nil {
			break
		}
		n.obey(m)
	}
	cancel()
	<-sent
	n.mu.Lock()
	n.out = nil
	n.mu.Unlock()
}

func (n *node) register() chan *pb.NodeMessage {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.out = make(chan *pb.NodeMessage, 4096)
	register := &pb.Register{Node: n.name, Instance: n.name, SentBoottimeNs: int64(time.Since(n.begin)) + 1, Inventory: &pb.Inventory{
		Cpus: 4, RealCpus: 4, MemoryBytes: 8 << 30, RealMemoryBytes: 8 << 30, BootId: n.name, HostName: n.name}}
	keys := slices.SortedFunc(maps.Keys(n.parts), func(a, b partKey) int { return int(a.job) - int(b.job) })
	for _, key := range keys {
		register.Running = append(register.Running, &pb.RunningPart{Part: key.id(), Ready: true, Ending: n.parts[key].result != nil})
	}
	n.say(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: register}})
	for _, key := range keys {
		if result := n.parts[key].result; result != nil {
			n.say(&pb.NodeMessage{What: &pb.NodeMessage_PartEnded{PartEnded: result}})
		}
	}
	return n.out
}

func (k partKey) id() *pb.PartId { return &pb.PartId{Job: k.job, Epoch: k.epoch} }

// say queues a message; n.mu is held.
func (n *node) say(m *pb.NodeMessage) {
	select {
	case n.out <- m:
	default: // no session: all is said again in the next
	}
}

func (n *node) obey(m *pb.ControllerMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch what := m.GetWhat().(type) {
	case *pb.ControllerMessage_StartPart:
		key := partKey{what.StartPart.GetPart().GetJob(), what.StartPart.GetPart().GetEpoch()}
		if p := n.parts[key]; p != nil {
			if p.result != nil {
				n.say(&pb.NodeMessage{What: &pb.NodeMessage_PartEnded{PartEnded: p.result}})
			}
			return
		}
		p := &part{key: key}
		n.parts[key] = p
		n.truth.starts(n.name, key, n.truth.waitOf(what.StartPart.GetSpec().GetName()))
		n.say(&pb.NodeMessage{What: &pb.NodeMessage_PartReady{PartReady: &pb.PartReady{Part: key.id()}}})
		p.timer = time.AfterFunc(time.Duration(1+key.job%20)*time.Second, func() { n.end(p, pb.EndCause_END_CAUSE_EXITED) })
	case *pb.ControllerMessage_EndPart:
		key := partKey{what.EndPart.GetPart().GetJob(), what.EndPart.GetPart().GetEpoch()}
		p := n.parts[key]
		switch {
		case p == nil:
			n.say(&pb.NodeMessage{What: &pb.NodeMessage_PartEnded{PartEnded: &pb.PartEnded{Part: key.id(), Cause: pb.EndCause_END_CAUSE_UNKNOWN_PART}}})
		case p.result != nil:
			n.say(&pb.NodeMessage{What: &pb.NodeMessage_PartEnded{PartEnded: p.result}})
		case p.timer.Stop():
			p.timer = time.AfterFunc(100*time.Millisecond, func() { n.end(p, pb.EndCause_END_CAUSE_CANCELLED) })
		}
	case *pb.ControllerMessage_EndedAcknowledged:
		key := partKey{what.EndedAcknowledged.GetPart().GetJob(), what.EndedAcknowledged.GetPart().GetEpoch()}
		if p := n.parts[key]; p != nil && p.result != nil {
			delete(n.parts, key)
		}
	}
}

func (n *node) end(p *part, cause pb.EndCause) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.truth.ends(p.key)
	p.result = &pb.PartEnded{Part: p.key.id(), Cause: cause}
	n.say(&pb.NodeMessage{What: &pb.NodeMessage_PartEnded{PartEnded: p.result}})
}
