package ordered

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/job"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"google.golang.org/protobuf/proto"
)

// daemon is gnoded: a model of package noded's agent around the real table of
// a part's life.
type daemon struct {
	process
	m        *machine
	instance string
	parts    map[partKey]*part
	gone     map[partKey]*pb.PartEnded // finished parts whose directories are gone
	conn     *conn                     // the present session; nil = none
	link     *link                     // its other end
	joined   bool                      // the registration was answered
	answered time.Duration             // boot time of the last sign of a lease
	granted  *pb.LeaseRenewed
	failures int
	keep     *pb.KeepImages           // not carried out yet; nil = none
	kept     time.Duration            // when it came
	left     map[uint32]time.Duration // when the last part of a job was forgotten
}

// part is what the daemon knows of a part.
type part struct {
	key      partKey
	order    *pb.StartPart
	taken    time.Duration // boot time of the order
	shim     *shim         // nil until it was launched
	life     job.Life
	ready    bool
	released bool
	endOrder *pb.EndPart
	result   *pb.PartEnded

	calledBy      time.Duration // when what the supervisor was told last reaches it
	saved         *pb.PartSaved // how the newest save ended; nil = none did, or a controller knows
	savedKnown    *pb.PartSaved // that it knows
	grade         *pb.PartGrade
	suspendNumber uint32
	stands        bool
}

// Times of the daemon, as in noded.
const (
	resendEvery   = 10 * time.Second
	patienceLeast = 15 * time.Second
)

// begin starts the daemon, which adopts what is on the disk.
func (d *daemon) begin() {
	if d.up || !d.m.on {
		return
	}
	d.process.start()
	d.instance = fmt.Sprintf("%s-%d", d.m.name, d.starts)
	d.parts, d.gone = map[partKey]*part{}, map[partKey]*pb.PartEnded{}
	d.left = map[uint32]time.Duration{}
	d.conn, d.link, d.granted, d.failures, d.keep = nil, nil, nil, 0, nil
	for _, s := range d.m.shimsInOrder() {
		p := &part{key: s.key, order: s.order, shim: s}
		d.parts[s.key] = p
		switch {
		case s.result != nil || !s.alive:
			d.shimEnded(s)
		case s.ready:
			d.shimReady(s)
			d.shimSuspended(s)
			d.shimSaved(s)
			d.shimGraded(s)
		}
	}
	d.after(between(d.w.rng, 10*time.Millisecond, 2*time.Second), d.connect)
	d.resendLater()
}

func (d *daemon) resendLater() {
	d.after(resendEvery, func() {
		d.resend()
		d.resendLater()
	})
}

// resend tells again what nobody has acknowledged: how a part was saved before
// how it ended.
func (d *daemon) resend() {
	for _, p := range d.inOrder() {
		if p.saved != nil {
			d.sendSaved(p.saved)
		}
		if p.life.State() == job.Ended {
			d.sendEnded(p.result)
		}
	}
}

func (d *daemon) inOrder() []*part {
	all := make([]*part, 0, len(d.parts))
	for _, p := range d.parts {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.key.job, b.key.job), cmp.Compare(a.key.epoch, b.key.epoch))
	})
	return all
}

func (d *daemon) move(p *part, to job.State) {
	if _, err := p.life.Move(to); err != nil {
		d.w.fail("%s part %s: %v", d.m.name, p.key, err)
	}
}

// startPart starts a part, or answers how the one it has already stands.
func (d *daemon) startPart(order *pb.StartPart) {
	key := keyOf(order.GetPart())
	if result, known := d.gone[key]; known && !d.w.broken.NoMemory {
		d.sendEnded(result)
		return
	}
	if p, known := d.parts[key]; known {
		switch {
		case p.life.Over():
			d.sendEnded(p.result)
		case p.ready:
			d.sendReady(p)
		}
		return
	}
	for other := range d.parts {
		if other.job == key.job && other.epoch > key.epoch {
			d.sendEnded(&pb.PartEnded{Part: key.id(), Cause: pb.EndCause_END_CAUSE_NODE_FAULT, Detail: "a later run is here already"})
			return
		}
	}
	p := &part{key: key, order: order, taken: d.m.boottime()}
	d.parts[key] = p
	d.w.trace(d.m.name, "part %s is ordered", key)
	d.after(between(d.w.rng, time.Millisecond, 200*time.Millisecond), func() { d.launch(p) })
}

// launch starts the supervisor, once nothing is left of earlier runs here.
func (d *daemon) launch(p *part) {
	for _, other := range d.inOrder() {
		if other.key.job == p.key.job && other.key.epoch < p.key.epoch && !other.life.Over() {
			d.endOf(other, &pb.EndPart{Part: other.key.id()})
			d.after(100*time.Millisecond, func() { d.launch(p) })
			return
		}
	}
	switch {
	case p.endOrder != nil:
		d.over(p, &pb.PartEnded{Part: p.key.id(), Cause: endCause(p.endOrder)})
	case d.m.full:
		d.over(p, &pb.PartEnded{Part: p.key.id(), Cause: pb.EndCause_END_CAUSE_NODE_FULL})
	default:
		p.shim = d.m.launch(p.order, p.taken)
		if d.granted != nil {
			p.shim.grant(d.grantFor(p.key))
		}
	}
}

func endCause(end *pb.EndPart) pb.EndCause {
	if end.GetBatchEnded() {
		return pb.EndCause_END_CAUSE_EXITED
	}
	return pb.EndCause_END_CAUSE_CANCELLED
}

// shimReady: the container is up. A supervisor tells each new daemon.
func (d *daemon) shimReady(s *shim) {
	d.told(s, func(p *part) {
		p.ready = true
		if p.life.State() == job.Preparing {
			d.move(p, job.Ready)
			if !p.order.GetGang() {
				d.move(p, job.Running)
			}
			if p.released {
				d.startBatch(p)
			}
		}
		d.sendReady(p)
	})
}

func (d *daemon) startBatch(p *part) {
	d.move(p, job.Running)
	d.call(p, func(s *shim) { s.release() })
}

func (d *daemon) releaseBatch(id *pb.PartId) {
	p := d.parts[keyOf(id)]
	if p == nil || p.life.State() > job.Running {
		return
	}
	p.released = true
	if p.life.State() != job.Preparing {
		d.startBatch(p)
	}
}

// endPart ends a part, or answers how it ended.
func (d *daemon) endPart(order *pb.EndPart) {
	key := keyOf(order.GetPart())
	p, known := d.parts[key]
	if !known {
		result := d.gone[key]
		if result == nil {
			result = &pb.PartEnded{Part: key.id(), Cause: pb.EndCause_END_CAUSE_UNKNOWN_PART}
		}
		d.sendEnded(result)
		return
	}
	if p.life.Over() {
		d.sendEnded(p.result)
		return
	}
	d.endOf(p, order)
}

func (d *daemon) endOf(p *part, order *pb.EndPart) {
	p.endOrder = order
	d.move(p, job.Ending)
	if p.shim != nil {
		d.call(p, func(s *shim) { s.end(time.Duration(order.GetGraceS())*time.Second, endCause(order)) })
	}
}

// shimEnded: the supervisor has written its result, or died.
func (d *daemon) shimEnded(s *shim) {
	d.after(between(d.w.rng, 0, 500*time.Millisecond), func() {
		p := d.parts[s.key]
		if p == nil || p.shim != s || p.life.Over() {
			return
		}
		d.over(p, s.recover())
	})
}

// over: nothing of the part is left but its result.
func (d *daemon) over(p *part, result *pb.PartEnded) {
	d.lastSaved(p)
	p.result = result
	d.move(p, job.Ended)
	if d.w.broken.ForgetsEarly {
		d.sendEnded(result)
		d.move(p, job.Acknowledged)
		d.forget(p)
		return
	}
	d.w.trace(d.m.name, "part %s has ended: %s, exit code %d", p.key, cause(result), result.GetExitCode())
	d.sendEnded(result)
}

// acknowledged: a controller has the result, so the directory may go.
func (d *daemon) acknowledged(id *pb.PartId) {
	p := d.parts[keyOf(id)]
	if p == nil || p.life.State() != job.Ended {
		return
	}
	d.move(p, job.Acknowledged)
	if d.w.broken.NoMemory {
		d.forget(p)
		return
	}
	d.after(between(d.w.rng, time.Millisecond, 200*time.Millisecond), func() { d.forget(p) })
}

func (d *daemon) forget(p *part) {
	delete(d.parts, p.key)
	delete(d.m.shims, p.key)
	d.gone[p.key] = p.result
	d.left[p.key.job] = d.w.now
}

func (d *daemon) sendReady(p *part) {
	d.send(&pb.NodeMessage{What: &pb.NodeMessage_PartReady{PartReady: &pb.PartReady{Part: p.key.id()}}})
}

func (d *daemon) sendEnded(result *pb.PartEnded) {
	d.send(&pb.NodeMessage{What: &pb.NodeMessage_PartEnded{PartEnded: proto.CloneOf(result)}})
}

// grantFor is what the latest answer of a controller says of one part.
func (d *daemon) grantFor(key partKey) lease.Grant {
	g := lease.Grant{
		Sent: time.Duration(d.granted.GetSentBoottimeNs()), Length: time.Duration(d.granted.GetLeaseMs()) * time.Millisecond,
		Margin: time.Duration(d.granted.GetLeaseMarginMs()) * time.Millisecond,
	}
	for _, id := range d.granted.GetParts() {
		g.Named = g.Named || keyOf(id) == key
	}
	return g
}
