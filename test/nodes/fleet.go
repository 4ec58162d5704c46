package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// patience bounds the wait for all nodes.
	patience = 5 * time.Minute
	// firstPause and lastPause are those of gnoded between its tries.
	firstPause, lastPause = 200 * time.Millisecond, 5 * time.Second
	// registerPatience is how long gnoded waits to be registered.
	registerPatience = 10 * time.Second
)

// fleet is the nodes.
type fleet struct {
	targets    []string
	nodes      []*node
	group      sync.WaitGroup
	started    atomic.Int64
	registered atomic.Int64 // registrations
}

// node is one of them: a session at a time, and what it decides by.
type node struct {
	name     string
	fleet    *fleet
	registry registry.Registry
	since    atomic.Int64 // when its session was registered, in Unix nanoseconds; 0 = it has none
}

func newFleet(count int, targets []string) *fleet {
	f := &fleet{targets: targets}
	for i := range count {
		f.nodes = append(f.nodes, &node{name: fmt.Sprintf("sim%05d", i), fleet: f, registry: registry.Registry{Most: 512, Remembers: 4096}})
	}
	return f
}

func (f *fleet) connect(ctx context.Context) {
	for _, n := range f.nodes {
		f.group.Go(func() { n.connect(ctx) })
	}
}

// all waits until each node has a session.
func (f *fleet) all(ctx context.Context) error { return f.allSince(ctx, time.Time{}) }

// allSince waits until each node has one that began after a time.
func (f *fleet) allSince(ctx context.Context, begin time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the nodes are not all registered after %v", patience))
	defer cancel()
	next := 0
	for next < len(f.nodes) {
		if since := f.nodes[next].since.Load(); since != 0 && since > begin.UnixNano() {
			next++
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// connect keeps a session open, as gnoded does.
func (n *node) connect(ctx context.Context) {
	pause, next := firstPause, rand.IntN(len(n.fleet.targets))
	for tries := 1; ctx.Err() == nil; tries++ {
		registered := n.hold(ctx, n.fleet.targets[next%len(n.fleet.targets)])
		n.since.Store(0)
		next++
		if registered != nil {
			pause, tries = firstPause, 0
		}
		if registered != nil || tries%len(n.fleet.targets) == 0 {
			spread := rand.N(max(time.Duration(registered.GetReconnectWithinMs())*time.Millisecond, 1))
			select {
			case <-ctx.Done():
			case <-time.After(pause/2 + rand.N(pause) + spread):
			}
			pause = min(2*pause, lastPause)
		}
	}
}

// hold keeps one session until it ends.
func (n *node) hold(ctx context.Context, target string) (registered *pb.Registered) {
	connection, err := dial.Dial([]string{target}, "")
	if err != nil {
		return nil
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(registerPatience, cancel)
	stream, err := pb.NewNodeLinkClient(connection).Session(ctx)
	if err != nil {
		return nil
	}
	for _, message := range n.registry.Register(n.registration()) {
		if stream.Send(message) != nil {
			return nil
		}
	}
	first, err := stream.Recv()
	if err != nil || first.GetRegistered() == nil {
		return nil
	}
	late.Stop()
	registered = first.GetRegistered()
	n.since.Store(time.Now().UnixNano())
	n.fleet.registered.Add(1)
	heard := make(chan *pb.ControllerMessage)
	go func() {
		defer cancel()
		for {
			message, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case heard <- message:
			case <-ctx.Done():
				return
			}
		}
	}()
	renew := time.NewTicker(time.Duration(registered.GetRenewEveryMs()) * time.Millisecond)
	defer renew.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return registered
		case <-renew.C:
			err = stream.Send(n.registry.Renewal(now(), nil))
		case message := <-heard:
			err = n.obey(stream, message)
		}
		if err != nil {
			return registered
		}
	}
}

// obey does what a message says. What it starts is ready at once, and over.
func (n *node) obey(stream grpc.BidiStreamingClient[pb.NodeMessage, pb.ControllerMessage], message *pb.ControllerMessage) error {
	if renewed := message.GetLeaseRenewed(); renewed != nil {
		n.registry.Renewed(renewed)
		return nil
	}
	do, _ := n.registry.Obey(message, now())
	send := do.Send
	if p := do.New; p != nil {
		n.fleet.started.Add(1)
		ready := n.registry.Hear(p, &pb.ShimEvent{What: &pb.ShimEvent_Ready{Ready: &pb.AllocReady{Alloc: p.Key.Message()}}})
		over := n.registry.Over(p, &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_EXITED}, nil, now())
		send = append(append(send, ready.Send...), over.Send...)
	}
	if do.Done != nil {
		n.registry.Forget(do.Done, now())
	}
	for _, m := range send {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func now() registry.Time { return registry.Time{Boot: boottime.Now(), WallMS: time.Now().UnixMilli()} }

// registration says that the node has 64 CPUs, 512 GiB and 8 GPUs.
func (n *node) registration() *pb.Register {
	r := &pb.Register{
		Node: n.name, Instance: uuid.NewString(), SentBoottimeNs: int64(boottime.Now()),
		Inventory: &pb.Inventory{Cpus: 64, MemoryBytes: 512 << 30, BootId: "b", HostName: n.name},
	}
	for d := range uint32(8) {
		r.Inventory.Devices = append(r.Inventory.Devices, &pb.Device{Id: fmt.Sprintf("gpu%d", d), Index: d, Model: "a100", Health: pb.DeviceHealth_DEVICE_HEALTH_OK})
	}
	return r
}
