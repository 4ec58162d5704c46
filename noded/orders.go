package noded

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/job"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// obey carries out one message of a controller. It never waits for a
// supervisor, so that no part can hold up the lease of the others.
func (a *agent) obey(ctx context.Context, s *session, m *pb.ControllerMessage) {
	switch what := m.What.(type) {
	case *pb.ControllerMessage_LeaseRenewed:
		a.leaseRenewed(s, what.LeaseRenewed)
	case *pb.ControllerMessage_StartPart:
		a.startPart(ctx, what.StartPart)
	case *pb.ControllerMessage_ReleaseBatch:
		a.releaseBatch(what.ReleaseBatch)
	case *pb.ControllerMessage_EndPart:
		a.endPart(what.EndPart)
	case *pb.ControllerMessage_SetTimeLimit:
		a.setTimeLimit(what.SetTimeLimit)
	case *pb.ControllerMessage_SuspendPart:
		a.suspendPart(what.SuspendPart)
	case *pb.ControllerMessage_SignalPart:
		a.signalPart(what.SignalPart)
	case *pb.ControllerMessage_EndedAcknowledged:
		a.endedAcknowledged(what.EndedAcknowledged)
	case *pb.ControllerMessage_Connect:
		a.joinTunnel(ctx, s, what.Connect)
	case *pb.ControllerMessage_SavePart:
		a.savePart(what.SavePart)
	case *pb.ControllerMessage_SavedAcknowledged:
		a.savedAcknowledged(what.SavedAcknowledged)
	case *pb.ControllerMessage_AskRestore:
		a.askRestore(ctx, s, what.AskRestore)
	case *pb.ControllerMessage_KeepImages:
		a.keepImages(what.KeepImages)
	case *pb.ControllerMessage_SendImage:
		a.sendImage(ctx, s, what.SendImage)
	default:
		a.log.Warn("a message that this gnoded does not understand: is it older than the controller?")
	}
}

// startPart starts a part, or answers how the one it has already stands.
func (a *agent) startPart(ctx context.Context, order *pb.StartPart) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyOf(order.GetPart())
	if result, ok := a.forgotten.results[key]; ok {
		a.sendLocked(endedMessage(result))
		return
	}
	if p, ok := a.parts[key]; ok {
		switch {
		case p.life.Over():
			a.sendLocked(endedMessage(p.result))
		case p.ready:
			a.sendLocked(&pb.NodeMessage{What: &pb.NodeMessage_PartReady{PartReady: &pb.PartReady{Part: key.message()}}})
		}
		return
	}
	if err := a.acceptLocked(order); err != nil {
		a.log.Error("a start order is refused: the controller and this node disagree about what it has, see whether its configuration changed", "job", key.job, "epoch", key.epoch, "error", err)
		a.sendLocked(endedMessage(neverStarted(key, pb.EndCause_END_CAUSE_NODE_FAULT, err.Error())))
		return
	}
	p := a.newPart(order)
	a.tend(ctx, p)
	a.askForLease(p)
}

func (a *agent) acceptLocked(order *pb.StartPart) error {
	if err := a.checkOrder(order); err != nil {
		return err
	}
	if len(a.parts) >= maxParts {
		return fmt.Errorf("this node holds %d parts of jobs and takes no more", len(a.parts))
	}
	for key := range a.parts {
		if key.job == order.Part.Job && key.epoch > order.Part.Epoch {
			return fmt.Errorf("%w: run %d of the job is here already", errOrder, key.epoch)
		}
	}
	return nil
}

// releaseBatch lets a gang's script start, now or when its container is up.
func (a *agent) releaseBatch(order *pb.ReleaseBatch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.parts[keyOf(order.GetPart())]
	if !ok || p.life.State() > job.Running {
		return
	}
	p.released = true
	if p.life.State() != job.Preparing {
		a.startBatchLocked(p)
	}
}

func (a *agent) startBatchLocked(p *part) {
	p.move(job.Running)
	p.put(call{name: "start the script", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
		_, err := client.StartBatch(ctx, &pb.ReleaseBatch{Part: p.key.message()})
		return err
	}})
}

// endPart ends a part, or answers how it ended.
func (a *agent) endPart(order *pb.EndPart) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyOf(order.GetPart())
	p, ok := a.parts[key]
	if !ok {
		result := a.forgotten.results[key]
		if result == nil {
			result = neverStarted(key, pb.EndCause_END_CAUSE_UNKNOWN_PART, "")
		}
		a.sendLocked(endedMessage(result))
		return
	}
	if p.life.Over() {
		a.sendLocked(endedMessage(p.result))
		return
	}
	a.endLocked(p, order)
}

// endLocked passes an order to end on to the supervisor, once there is one.
func (a *agent) endLocked(p *part, order *pb.EndPart) {
	p.endOrder = order
	a.expectEnd(p, time.Duration(order.GraceS)*time.Second+endPatience)
	if p.life.State() != job.Ending {
		p.move(job.Ending)
	}
	p.put(call{name: "end", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
		_, err := client.End(ctx, order)
		return err
	}})
}

// expectEnd has the part's supervisor killed if the part has not ended by
// then: one that is stopped, or waits for a file server that is away, must not
// keep what the job has. The caller holds a.mu.
func (a *agent) expectEnd(p *part, within time.Duration) {
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
		if s == nil || p.life.Over() {
			a.mu.Unlock()
			return
		}
		p.killed = true
		a.mu.Unlock()
		p.log.Warn("a supervisor has not ended its part in time and is killed: see whether a file server or a device does not answer")
		if err := s.Kill(); err != nil {
			p.log.Error("a supervisor that should have ended cannot be killed: find it with ps and kill it", "error", err)
		}
	})
}

// setTimeLimit passes a new time limit on to the supervisor, once there is one.
func (a *agent) setTimeLimit(order *pb.SetTimeLimit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.parts[keyOf(order.GetPart())]
	if !ok || p.life.Over() {
		return
	}
	p.put(call{name: "set the time limit", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
		_, err := client.SetLimit(ctx, order)
		return err
	}})
}

// signalPart delivers a signal, and answers how that went.
func (a *agent) signalPart(order *pb.SignalPart) {
	answer := func(err error) {
		result := &pb.SignalResult{Token: order.Token}
		if err != nil {
			result.Error = words(userMessage(err))
		}
		a.send(&pb.NodeMessage{What: &pb.NodeMessage_SignalResult{SignalResult: result}})
	}
	a.mu.Lock()
	p, ok := a.parts[keyOf(order.GetPart())]
	over := ok && p.life.Over()
	a.mu.Unlock()
	if !ok || over {
		answer(errOver)
		return
	}
	p.put(call{name: "signal", then: answer, do: func(ctx context.Context, client pb.ShimClient) error {
		_, err := client.Signal(ctx, order)
		return err
	}})
	select {
	case <-p.over: // it may have ended after we looked, with nobody left to deliver
		p.refuseCalls()
	default:
	}
}

// endedAcknowledged: a controller has the result of a part.
func (a *agent) endedAcknowledged(m *pb.EndedAcknowledged) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.parts[keyOf(m.GetPart())]
	if !ok || p.life.State() != job.Ended {
		return
	}
	p.move(job.Acknowledged)
	close(p.acknowledged)
}

// joinTunnel asks a part's supervisor to join a tunnel. It is done beside the
// part's other orders, since dialling may take its time.
func (a *agent) joinTunnel(ctx context.Context, s *session, order *pb.Connect) {
	a.mu.Lock()
	p, ok := a.parts[keyOf(order.GetPart())]
	var shim supervisor
	if ok && !p.life.Over() {
		shim = p.supervisor
	}
	a.mu.Unlock()
	if order.Client {
		a.attachClient(ctx, s, p, shim, order)
		return
	}
	if shim == nil {
		a.log.Warn("a tunnel is asked for to a part that does not run here, which is harmless where a job just ended",
			"job", order.GetPart().GetJob(), "epoch", order.GetPart().GetEpoch())
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
