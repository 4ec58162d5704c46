package ordered

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// link is the controller's end of a node's connection.
type link struct {
	c       *controller
	starts  int // of the controller
	conn    *conn
	daemon  *daemon
	session *session.Session  // nil until the node is registered
	early   []*pb.NodeMessage // came before that
	closed  bool
}

// serveNode begins a session: it takes a node's first message.
func (l *link) serveNode(register *pb.Register) {
	c := l.c
	arrived := c.monotonic()
	c.spawn(func() {
		if !c.leading {
			l.close("does not lead")
			return
		}
		lease := time.Duration(c.View().Policy().LeaseS) * time.Second
		done, err := c.leader.Sessions().Admit(register, lease)
		if err != nil {
			l.close("refused")
			return
		}
		defer done()
		command := state.RegisterFromMessage(register)
		if _, err := c.Propose(context.Background(), command, state.RequestID{}); err != nil {
			l.close("not committed")
			return
		}
		if c.noteHolds(register.GetNode(), register.GetHolds()) != nil {
			l.close("not committed")
			return
		}
		granted, err := c.grant(register.GetNode(), arrived)
		if err != nil || !c.leading || l.closed {
			l.close("no lease")
			return
		}
		l.session = c.leader.Sessions().Connect(context.Background(), register, &pb.Registered{
			LeaseMs: granted.LeaseMs, LeaseMarginMs: granted.LeaseMarginMs, RenewEveryMs: granted.LeaseMs / 3,
			SentBoottimeNs: register.GetSentBoottimeNs(), Allocs: granted.Allocs,
		})
		c.links[l] = struct{}{}
		early := l.early
		l.early = nil
		for _, message := range early {
			l.hear(message)
		}
	})
}

// noteHolds does what the api's holds does.
func (c *controller) noteHolds(node string, said *pb.NodeHolds) error {
	command := state.HoldsFromMessage(node, said)
	if said == nil || !c.View().TellsHolds(&command) {
		return nil
	}
	_, err := c.Propose(context.Background(), command, state.RequestID{})
	return err
}

// grant does what the api's grant does, in its order.
func (c *controller) grant(node string, arrived time.Time) (*pb.LeaseRenewed, error) {
	ctx := context.Background()
	if err := c.Confirm(ctx); err != nil {
		return nil, err
	}
	if err := c.leader.OpenTerm(ctx); err != nil {
		return nil, err
	}
	policy := c.View().Policy()
	if !c.leader.Sessions().Grant(node, arrived, time.Duration(policy.LeaseS)*time.Second) {
		return nil, session.ErrEnding
	}
	return &pb.LeaseRenewed{
		LeaseMs: policy.LeaseS * 1000, LeaseMarginMs: policy.MarginS() * 1000, Allocs: c.View().AllocsOn(node),
	}, nil
}

// hear takes in a message of a registered node.
func (l *link) hear(message *pb.NodeMessage) {
	c := l.c
	if l.closed {
		return
	}
	if l.session == nil {
		l.early = append(l.early, message)
		return
	}
	arrived := c.monotonic()
	l.session.Touch(arrived)
	c.spawn(func() {
		switch what := message.GetWhat().(type) {
		case *pb.NodeMessage_RenewLease:
			l.session.NoteClock(time.Duration(what.RenewLease.GetSentBoottimeNs()), arrived)
			granted, err := c.grant(l.session.Node(), arrived)
			if err != nil || l.closed {
				l.close("no lease")
				return
			}
			granted.SentBoottimeNs = what.RenewLease.GetSentBoottimeNs()
			l.session.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_LeaseRenewed{LeaseRenewed: granted}})
		case *pb.NodeMessage_AllocReady:
			_ = c.leader.Ready(context.Background(), l.session, what.AllocReady)
		case *pb.NodeMessage_AllocEnded:
			_ = c.leader.Ended(context.Background(), l.session, what.AllocEnded)
		case *pb.NodeMessage_AllocSuspended:
			_ = c.leader.Suspended(context.Background(), l.session, what.AllocSuspended)
		case *pb.NodeMessage_AllocSaved:
			_ = c.leader.Saved(context.Background(), l.session, what.AllocSaved)
		case *pb.NodeMessage_AllocCheckpointable:
			c.leader.Checkpointable(l.session, what.AllocCheckpointable)
		case *pb.NodeMessage_RestoreAnswer:
			c.leader.Restores(l.session, what.RestoreAnswer)
			c.kick(savedLoop)
		case *pb.NodeMessage_ImageFetched:
			_ = c.leader.Fetched(context.Background(), l.session, what.ImageFetched)
			c.kick(savedLoop)
		case *pb.NodeMessage_NodeHolds:
			_ = c.noteHolds(l.session.Node(), what.NodeHolds)
		case *pb.NodeMessage_ImagesHeld:
			l.session.SetHeld(what.ImagesHeld.GetImages())
		}
	})
}

// drain sends what the controller's sessions have queued, and closes what is
// over.
func (w *World) drain(c *controller) {
	for _, l := range linksInOrder(c.links) {
		for taken := true; taken; {
			select {
			case message := <-l.session.Out():
				l.session.Sent(message)
				daemon := l.daemon
				l.conn.down.send(func() { daemon.hear(l.conn, message) })
			default:
				taken = false
			}
		}
		select {
		case <-l.session.Done():
			l.close("session over")
		default:
		}
	}
}

// close ends the connection from this end.
func (l *link) close(why string) {
	if l.closed {
		return
	}
	l.closed = true
	l.conn.up.closed = true
	delete(l.c.links, l)
	if l.session != nil {
		l.c.leader.Sessions().Disconnect(l.session)
		l.c.poke()
	}
	conn, daemon := l.conn, l.daemon
	conn.down.send(func() { daemon.lost(conn, why) })
}

// hangUp is what the other end's end looks like here.
func (l *link) hangUp() {
	if l.c.starts == l.starts && l.c.up {
		l.close("the node went")
	}
}

// afterTask looks at what a task of a controller has left to do.
func (w *World) afterTask(p *process) {
	if c := w.controllerOf[p]; c != nil && c.up {
		c.poke()
	}
}

func linksInOrder(links map[*link]struct{}) []*link {
	all := make([]*link, 0, len(links))
	for l := range links {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *link) int { return cmp.Compare(a.conn.id, b.conn.id) })
	return all
}
