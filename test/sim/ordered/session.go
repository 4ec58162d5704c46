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
	session *session.Session // nil until the node is registered
	closed  bool
}

// serveNode begins a session: it takes a node's first message.
func (l *link) serveNode(register *pb.Register) {
	c := l.c
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
		if _, err := c.Propose(context.Background(), state.RegisterFromMessage(register), state.RequestID{}); err != nil {
			l.close("not committed")
			return
		}
		if err := c.Confirm(context.Background()); err != nil || !c.leading || l.closed {
			l.close("does not lead any more")
			return
		}
		policy := c.View().Policy()
		l.session = c.leader.Sessions().Connect(context.Background(), register, &pb.Registered{
			LeaseMs: policy.LeaseS * 1000, RenewEveryMs: policy.LeaseS * 1000 / 3, SentBoottimeNs: register.GetSentBoottimeNs(),
			Parts: c.partsOf(register.GetNode()),
		})
		c.links[l] = struct{}{}
	})
}

// partsOf are the parts that are a node's at this moment.
func (c *controller) partsOf(node string) []*pb.PartId {
	var parts []*pb.PartId
	for _, wanted := range c.View().WantedParts(node) {
		parts = append(parts, &pb.PartId{Job: wanted.Job, Epoch: wanted.Epoch})
	}
	return parts
}

// hear takes in a message of a registered node.
func (l *link) hear(message *pb.NodeMessage) {
	c := l.c
	if l.session == nil || l.closed {
		return
	}
	l.session.Touch(c.monotonic())
	c.spawn(func() {
		switch what := message.GetWhat().(type) {
		case *pb.NodeMessage_RenewLease:
			if c.Confirm(context.Background()) != nil || l.closed {
				l.close("does not lead any more")
				return
			}
			l.session.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_LeaseRenewed{LeaseRenewed: &pb.LeaseRenewed{
				SentBoottimeNs: what.RenewLease.GetSentBoottimeNs(), LeaseMs: c.View().Policy().LeaseS * 1000,
				Parts: c.partsOf(l.session.Node()),
			}}})
		case *pb.NodeMessage_PartReady:
			_ = c.leader.Ready(context.Background(), l.session, what.PartReady)
		case *pb.NodeMessage_PartEnded:
			_ = c.leader.Ended(context.Background(), l.session, what.PartEnded)
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
