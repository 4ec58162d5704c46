package raftmode

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/sim/agenda"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// machine is a simulated node in the time of the bubble: it keeps a session with one
// controller after another. It is the node's world, and the host of its daemon.
type machine struct {
	c     *cluster
	truth *truth
	begun time.Time

	mu      sync.Mutex // held while anything happens on the node
	node    node.Node
	rng     *rand.Rand
	agenda  agenda.Agenda
	stopped bool
	out     chan *pb.NodeMessage // of the present session; nil = none
	hangUp  func()               // ends it
}

func newMachine(c *cluster, t *truth, name string, number int, seed uint64) *machine {
	m := &machine{c: c, truth: t, begun: time.Now().Add(-time.Second), rng: rand.New(rand.NewPCG(seed, uint64(200+number)))}
	m.node = node.Node{
		World: m, Broken: &node.Broken{}, Name: name, Number: number, Seed: seed, Rate: 1,
		Shims: map[registry.Key]*node.Shim{}, CPUs: 4, Images: map[string]*node.Image{},
	}
	m.node.Daemon.Node, m.node.Daemon.Host = &m.node, m
	return m
}

// serve runs the node, and keeps it connected, until ctx ends.
func (m *machine) serve(ctx context.Context) {
	config := m.c.tls(m.c.bundle(pki.Node, m.node.Name))
	m.mu.Lock()
	m.node.SwitchOn()
	m.node.Daemon.Begin(1)
	m.mu.Unlock()
	for i := 0; ctx.Err() == nil; i++ {
		conn := m.c.connect(m.node.Name, m.c.names[i%len(m.c.names)], config)
		m.session(ctx, conn)
		_ = conn.Close()
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
}

func (m *machine) session(ctx context.Context, conn *grpc.ClientConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewNodeLinkClient(conn).Session(ctx)
	if err != nil {
		return
	}
	out := m.open(cancel)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		defer cancel()
		for {
			select {
			case <-ctx.Done():
				return
			case message := <-out:
				if stream.Send(message) != nil {
					return
				}
			}
		}
	}()
	for {
		message, err := stream.Recv()
		if err != nil {
			break
		}
		m.mu.Lock()
		m.node.Daemon.Hear(message)
		m.mu.Unlock()
	}
	cancel()
	<-sent
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out, m.hangUp = nil, nil
	m.node.Daemon.Lost()
}

// maxOutgoing bounds the messages that wait to be sent.
const maxOutgoing = 4096

// open begins a session.
func (m *machine) open(cancel func()) chan *pb.NodeMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out, m.hangUp = make(chan *pb.NodeMessage, maxOutgoing), cancel
	for _, message := range m.node.Daemon.Register() {
		m.Send(message)
	}
	return m.out
}

// What follows implements node.Host, under m.mu.

// After plans something, which happens in its order: see agenda.
func (m *machine) After(delay time.Duration, do func()) {
	m.agenda.Plan(m.Now()+max(delay, 0), do)
	time.AfterFunc(delay, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for {
			_, do := m.agenda.Next(m.Now())
			if do == nil || m.stopped {
				return
			}
			do()
		}
	})
}

// Send sends a message in the present session.
func (m *machine) Send(message *pb.NodeMessage) {
	select {
	case m.out <- message:
	default: // no session, or one that is far behind: all is told again in the next
	}
}

// HangUp ends the present session.
func (m *machine) HangUp(string) {
	if m.hangUp != nil {
		m.hangUp()
	}
}

// Connected says that no tunnel leads here: there are no images to fetch.
func (m *machine) Connected() bool { return false }
