package ordered

import (
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// daemon is the process of a gnoded, and its connection. What it does with what it is
// told is package node's.
type daemon struct {
	process
	m        *machine
	conn     *conn // the present session; nil = none
	link     *link // its other end
	joined   bool  // the registration was answered
	failures int
}

// patienceLeast is how long a controller may take to answer a registration.
const patienceLeast = 15 * time.Second

// begin starts the daemon.
func (d *daemon) begin() {
	if d.up || !d.m.On {
		return
	}
	d.process.start()
	d.conn, d.link, d.failures = nil, nil, 0
	d.m.Daemon.Begin(d.starts)
	d.after(between(d.w.rng, 10*time.Millisecond, 2*time.Second), d.connect)
}

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
			d.HangUp("not answered")
		}
	})
	first := d.m.Daemon.Register()
	register := first[0].GetRegister()
	starts := lead.starts
	conn.up.send(func() {
		lead.whenRuns(starts, func() { l.serveNode(register) }, func() { d.lost(conn, "refused") })
	})
	for _, m := range first[1:] {
		d.Send(m)
	}
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

// After implements node.Host, as what follows does.
func (d *daemon) After(delay time.Duration, do func()) { d.after(delay, do) }

// Send sends a message in the present session.
func (d *daemon) Send(message *pb.NodeMessage) {
	if d.conn == nil {
		return
	}
	l := d.link
	d.conn.up.send(func() {
		l.c.whenRuns(l.starts, func() { l.hear(message) }, func() { l.daemon.lost(l.conn, "the controller is gone") })
	})
}

// Connected says whether a tunnel leads to this machine now.
func (d *daemon) Connected() bool {
	return d.runs() && d.conn != nil && d.joined && d.conn.passes(false) && d.conn.passes(true)
}

// HangUp ends the session from this end.
func (d *daemon) HangUp(why string) {
	l := d.link
	l.conn.down.closed = true
	l.conn.up.send(l.hangUp)
	d.lostNow(l.conn, why)
}

// hear takes a message of a controller, if the session is still the present one.
func (d *daemon) hear(conn *conn, message *pb.ControllerMessage) {
	d.after(0, func() {
		if d.conn != conn {
			return
		}
		if message.GetRegistered() != nil {
			d.joined, d.failures = true, 0
			d.w.trace(d.m.Name, "is registered with %s", d.link.c.name)
		}
		d.m.Daemon.Hear(message)
	})
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
	d.leave()
	d.failures++
	d.w.trace(d.m.Name, "has no session: %s", why)
	pause := between(d.w.rng, 50*time.Millisecond, min(10*time.Second, 200*time.Millisecond<<min(d.failures, 6)))
	d.after(pause, d.connect)
}

// leave notes that there is no session any longer.
func (d *daemon) leave() {
	d.conn, d.link = nil, nil
	d.m.Daemon.Lost()
}

// fall is a crash of the daemon alone: its connection breaks.
func (d *daemon) fall() {
	if !d.up {
		return
	}
	d.w.trace(d.m.Name, "gnoded crashes")
	if d.conn != nil {
		d.conn.down.closed = true
		d.conn.up.send(d.link.hangUp)
	}
	d.crash()
	d.leave()
}

// vanish is what a loss of power does to it: nobody at the other end is told.
func (d *daemon) vanish() {
	if d.conn != nil {
		d.conn.down.closed, d.conn.up.closed = true, true
		d.w.after(between(d.w.rng, 0, keepalive), d.link.hangUp)
	}
	d.crash()
	d.leave()
}
