package ordered

import (
	"time"

	"github.com/gleaner-hpc/gleaner/noded/job"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// connect opens a session with one controller after another until one takes
// it, which is the leader or passes on to it.
func (d *daemon) connect() {
	if d.conn != nil {
		return
	}
	c := d.w.controllers[(d.failures+int(d.m.place))%len(d.w.controllers)]
	hops := []place{d.m.place, c.place}
	lead := c
	if c.runs() && !c.leading && d.w.log.leader != nil {
		lead = d.w.log.leader // a follower knows who leads, and passes on
		if lead != c {
			hops = append(hops, lead.place)
		}
	}
	conn := d.w.newConn(hops...)
	d.conn, d.joined = conn, false
	l := &link{c: lead, starts: lead.starts, conn: conn, daemon: d}
	d.link = l
	d.after(patienceLeast, func() {
		if d.conn == conn && !d.joined {
			d.hangUp("not answered")
		}
	})
	register := d.register()
	starts := lead.starts
	conn.up.send(func() {
		lead.whenRuns(starts, func() { l.serveNode(register) }, func() { d.lost(conn, "refused") })
	})
	for _, p := range d.inOrder() {
		if !p.life.Over() {
			d.sendGrade(p)
		}
	}
	d.resend()
}

// whenRuns does something in the process, if it still is the one that was
// meant: what comes to a stopped one waits.
func (p *process) whenRuns(starts int, do, otherwise func()) {
	if !p.up || p.starts != starts {
		otherwise()
		return
	}
	p.after(0, do)
}

func (d *daemon) register() *pb.Register {
	message := &pb.Register{
		Node: d.m.name, Inventory: d.m.inventory(), Instance: d.instance, SentBoottimeNs: int64(d.m.boottime()),
		Images: d.m.held(),
	}
	for _, p := range d.inOrder() {
		// A part whose end is not acknowledged is not lost.
		if p.life.State() != job.Acknowledged && !(d.w.broken.NeverLists && p.life.Over()) {
			message.Running = append(message.Running, &pb.RunningPart{
				Part: p.key.id(), Ready: p.ready, Ending: p.endOrder != nil || p.life.Over(), Frozen: p.shim != nil && p.shim.frozen(),
				SuspendNumber: p.suspendNumber, Stands: p.stands,
			})
		}
	}
	return message
}

func (d *daemon) send(message *pb.NodeMessage) {
	if d.conn == nil {
		return
	}
	l := d.link
	d.conn.up.send(func() {
		l.c.whenRuns(l.starts, func() { l.hear(message) }, func() { l.daemon.lost(l.conn, "the controller is gone") })
	})
}

// hear takes in a message of a controller, if the session is still the one.
func (d *daemon) hear(conn *conn, message *pb.ControllerMessage) {
	d.after(0, func() {
		if d.conn != conn {
			return
		}
		switch what := message.GetWhat().(type) {
		case *pb.ControllerMessage_Registered:
			d.joined, d.failures = true, 0
			d.w.trace(d.m.name, "is registered with %s", d.link.c.name)
			d.leaseGranted(&pb.LeaseRenewed{SentBoottimeNs: what.Registered.GetSentBoottimeNs(), LeaseMs: what.Registered.GetLeaseMs(), LeaseMarginMs: what.Registered.GetLeaseMarginMs(), Parts: what.Registered.GetParts()})
			d.keepLease(conn, time.Duration(what.Registered.GetRenewEveryMs())*time.Millisecond, time.Duration(what.Registered.GetLeaseMs())*time.Millisecond)
		case *pb.ControllerMessage_LeaseRenewed:
			d.leaseGranted(what.LeaseRenewed)
		case *pb.ControllerMessage_StartPart:
			d.startPart(what.StartPart)
		case *pb.ControllerMessage_ReleaseBatch:
			d.releaseBatch(what.ReleaseBatch.GetPart())
		case *pb.ControllerMessage_EndPart:
			d.endPart(what.EndPart)
		case *pb.ControllerMessage_EndedAcknowledged:
			d.acknowledged(what.EndedAcknowledged.GetPart())
		case *pb.ControllerMessage_SuspendPart:
			d.suspendPart(what.SuspendPart)
		case *pb.ControllerMessage_SavePart:
			d.savePart(what.SavePart)
		case *pb.ControllerMessage_SavedAcknowledged:
			d.savedAcknowledged(what.SavedAcknowledged)
		case *pb.ControllerMessage_AskRestore:
			d.askRestore(what.AskRestore)
		case *pb.ControllerMessage_KeepImages:
			d.keepImages(what.KeepImages)
		}
	})
}

// leaseGranted passes an answer on to all supervisors.
func (d *daemon) leaseGranted(granted *pb.LeaseRenewed) {
	d.answered = d.m.boottime()
	d.granted = granted
	for _, p := range d.inOrder() {
		if s := p.shim; s != nil && s.alive && !p.life.Over() {
			g := d.grantFor(p.key)
			d.after(between(d.w.rng, 0, 5*time.Millisecond), func() { s.grant(g) })
		}
	}
}

// keepLease asks for the lease again and again, and ends the session when it
// is not answered any more.
func (d *daemon) keepLease(conn *conn, interval, patience time.Duration) {
	if d.conn != conn {
		return
	}
	if d.m.boottime()-d.answered > max(patience, 3*interval) {
		d.hangUp("the lease is not renewed")
		return
	}
	d.send(&pb.NodeMessage{What: &pb.NodeMessage_RenewLease{RenewLease: &pb.RenewLease{SentBoottimeNs: int64(d.m.boottime())}}})
	d.after(d.m.inTrue(interval), func() { d.keepLease(conn, interval, patience) })
}

// hangUp ends the session from this end.
func (d *daemon) hangUp(why string) {
	l := d.link
	l.conn.down.closed = true
	l.conn.up.send(l.hangUp)
	d.lostNow(l.conn, why)
}

// lost is what the controller's end of the session's end looks like here.
func (d *daemon) lost(conn *conn, why string) {
	d.after(0, func() { d.lostNow(conn, why) })
}

func (d *daemon) lostNow(conn *conn, why string) {
	if d.conn != conn {
		return
	}
	conn.down.closed = true
	d.conn, d.link = nil, nil
	d.failures++
	d.w.trace(d.m.name, "has no session: %s", why)
	pause := between(d.w.rng, 50*time.Millisecond, min(10*time.Second, 200*time.Millisecond<<min(d.failures, 6)))
	d.after(pause, d.connect)
}

// fall is a crash of the daemon alone: its connection breaks.
func (d *daemon) fall() {
	if !d.up {
		return
	}
	d.w.trace(d.m.name, "gnoded crashes")
	if d.conn != nil {
		d.conn.down.closed = true
		d.conn.up.send(d.link.hangUp)
	}
	d.crash()
	d.conn, d.link = nil, nil
}

// vanish is what a loss of power does to it: nobody at the other end is told.
func (d *daemon) vanish() {
	if d.conn != nil {
		d.conn.down.closed, d.conn.up.closed = true, true
		d.w.after(between(d.w.rng, 0, keepalive), d.link.hangUp)
	}
	d.crash()
	d.conn, d.link = nil, nil
}
