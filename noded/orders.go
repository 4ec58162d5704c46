package noded

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/owner"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// obey carries out one message of a controller. It never waits for a
// supervisor, so that no allocation can hold up the lease of the others.
func (a *agent) obey(ctx context.Context, s *session, m *pb.ControllerMessage) {
	switch what := m.What.(type) {
	case *pb.ControllerMessage_LeaseRenewed:
		a.leaseRenewed(s, what.LeaseRenewed)
	case *pb.ControllerMessage_Connect:
		a.joinTunnel(ctx, s, what.Connect)
	case *pb.ControllerMessage_AskRestore:
		a.askRestore(ctx, s, what.AskRestore)
	case *pb.ControllerMessage_KeepImages:
		a.keepImages(what.KeepImages)
	case *pb.ControllerMessage_SendImage:
		a.sendImage(ctx, s, what.SendImage)
	case *pb.ControllerMessage_SendOutput:
		a.sendOutput(ctx, s, what.SendOutput)
	case *pb.ControllerMessage_FetchImage:
		a.fetchImage(ctx, s, what.FetchImage)
	case *pb.ControllerMessage_TendImages:
		a.tendContainerImages(ctx, what.TendImages)
	case *pb.ControllerMessage_OwnerRules:
		a.changeOwned(func(o *owner.Owner, now owner.Time) bool { return o.SetRules(what.OwnerRules, now) })
		go a.boundGuests() // at once, and the session does not wait for the kernel
	case *pb.ControllerMessage_DropHolds:
		a.changeOwned(func(o *owner.Owner, now owner.Time) bool { return o.Drop(what.DropHolds.GetThrough(), now) })
	default:
		a.obeyAlloc(ctx, m)
	}
}

// obeyAlloc carries out a message about the life of an allocation, as the registry
// decides.
func (a *agent) obeyAlloc(ctx context.Context, m *pb.ControllerMessage) {
	if !a.obeyLocked(ctx, m).Renew {
		return
	}
	load := hostLoad() // reads files: not under the lock
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sendLocked(a.registry.Renewal(timeNow(), load))
}

// obeyLocked does all of it but ask for a lease.
func (a *agent) obeyLocked(ctx context.Context, m *pb.ControllerMessage) registry.Do {
	a.mu.Lock()
	defer a.mu.Unlock()
	do, known := a.registry.Obey(m, timeNow())
	if !known {
		a.log.Warn("a message that this gnoded does not understand: is it older than the controller?")
		return do
	}
	if do.Refused != nil {
		id := m.GetStartAlloc().GetAlloc()
		a.log.Error("a start order is refused: the controller and this node disagree about what it has, see whether its configuration changed", "job", id.GetJob(), "epoch", id.GetEpoch(), "error", do.Refused)
	}
	a.carryOut(do)
	if do.New != nil {
		a.tend(ctx, a.newAlloc(do.New))
	}
	if do.Done != nil {
		close(a.allocs[do.Done.Key].acknowledged)
	}
	return do
}

// carryOut sends and passes on what the registry decided. The caller holds a.mu.
func (a *agent) carryOut(do registry.Do) {
	if do.Mistake != nil {
		a.log.Error("a mistake in gnoded, please report it", "error", do.Mistake)
	}
	for _, m := range do.Send {
		a.sendLocked(m)
	}
	for _, pass := range do.Pass {
		if pass.Hold != nil {
			a.passHold(a.allocs[pass.Alloc.Key], pass.Hold)
			continue
		}
		a.pass(a.allocs[pass.Alloc.Key], pass.Order)
	}
}

// pass queues an order for the supervisor of an allocation, which has it once there is
// one. The caller holds a.mu.
func (a *agent) pass(p *alloc, order *pb.ControllerMessage) {
	switch what := order.What.(type) {
	case *pb.ControllerMessage_ReleaseBatch:
		p.put(call{name: "start the script", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
			_, err := client.StartBatch(ctx, what.ReleaseBatch)
			return err
		}})
	case *pb.ControllerMessage_EndAlloc:
		a.expectEnd(p, time.Duration(what.EndAlloc.GraceS)*time.Second+endPatience)
		p.putFirst(call{name: "end", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
			_, err := client.End(ctx, what.EndAlloc)
			return err
		}})
	case *pb.ControllerMessage_SetTimeLimit:
		p.put(call{name: "set the time limit", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
			_, err := client.SetLimit(ctx, what.SetTimeLimit)
			return err
		}})
	case *pb.ControllerMessage_SuspendAlloc:
		came := timeNow()
		p.putFirst(call{name: "suspend", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
			_, err := client.Suspend(ctx, registry.Waited(what.SuspendAlloc, timeNow().Boot-came.Boot))
			return err
		}})
	case *pb.ControllerMessage_SignalAlloc:
		a.passSignal(p, what.SignalAlloc)
	case *pb.ControllerMessage_SaveAlloc:
		a.passSave(p, what.SaveAlloc)
	}
}

// passSignal has a signal delivered, and answers how that went.
func (a *agent) passSignal(p *alloc, order *pb.SignalAlloc) {
	p.put(call{name: "signal", do: func(ctx context.Context, client pb.ShimClient) error {
		_, err := client.Signal(ctx, order)
		return err
	}, then: func(err error) {
		why := ""
		if err != nil {
			why = userMessage(err)
		}
		a.send(registry.Signalled(order, why))
	}})
}

// passSave has an allocation saved. How that ends its supervisor tells, unless the
// order does not reach it.
func (a *agent) passSave(p *alloc, order *pb.SaveAlloc) {
	p.put(call{name: "save", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
		_, err := client.Save(ctx, order)
		return err
	}, then: func(err error) {
		if err != nil {
			a.hear(p, &pb.ShimEvent{What: &pb.ShimEvent_Saved{Saved: registry.NotSaved(order, userMessage(err))}})
		}
	}})
}

// endLocked ends an allocation. The caller holds a.mu.
func (a *agent) endLocked(p *alloc, order *pb.EndAlloc) {
	var do registry.Do
	a.registry.End(p.Alloc, order, &do)
	a.carryOut(do)
}

// expectEnd has the allocation's supervisor killed if the allocation has not ended by
// then: one that is stopped, or waits for a file server that is away, must not
// keep what the job has. The caller holds a.mu.
func (a *agent) expectEnd(p *alloc, within time.Duration) {
	by := time.Now().Add(within)
	if p.impatience != nil {
		if !by.Before(p.impatientBy) {
			return // an order that is repeated, or too late to matter
		}
		p.impatience.Stop()
	}
	p.impatientBy = by
	p.impatience = time.AfterFunc(within, func() {
		a.mu.Lock()
		s := p.supervisor
		if s == nil || p.Life.Over() {
			a.mu.Unlock()
			return
		}
		p.Killed = true
		a.mu.Unlock()
		p.log.Warn("a supervisor has not ended its allocation in time and is killed: see whether a file server or a device does not answer")
		if err := s.Kill(); err != nil {
			p.log.Error("a supervisor that should have ended cannot be killed: find it with ps and kill it", "error", err)
		}
	})
}

// joinTunnel asks an allocation's supervisor to join a tunnel. It is done beside the
// allocation's other orders, because dialling may take time.
func (a *agent) joinTunnel(ctx context.Context, s *session, order *pb.Connect) {
	a.mu.Lock()
	p, ok := a.allocs[registry.KeyOf(order.GetAlloc())]
	var shim supervisor
	if ok && !p.Life.Over() {
		shim = p.supervisor
	}
	a.mu.Unlock()
	if order.Client {
		a.attachClient(ctx, s, p, shim, order)
		return
	}
	if shim == nil {
		a.log.Warn("a tunnel is asked for to an allocation that does not run here, which is harmless where a job just ended",
			"job", order.GetAlloc().GetJob(), "epoch", order.GetAlloc().GetEpoch())
		return
	}
	if order.Controller == "" {
		order = proto.Clone(order).(*pb.Connect)
		order.Controller = s.target
	}
	if !s.tunnels.TryAcquire(1) {
		p.log.Warn("too many tunnels are being made at once: this one is refused", "most", maxTunnels)
		return
	}
	a.tending.Go(func() {
		defer s.tunnels.Release(1)
		p.run(ctx, shim, call{name: "join a tunnel", do: func(ctx context.Context, client pb.ShimClient) error {
			_, err := client.JoinTunnel(ctx, order)
			return err
		}})
	})
}
