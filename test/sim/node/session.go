package node

import (
	"time"

	"github.com/gleaner-hpc/gleaner/noded/owner"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// session is the daemon's connection to a controller.
type session struct {
	instance string        // of the daemon
	number   int           // of the session, among those of the daemon
	opened   time.Duration // boot time of its registration
	answered time.Duration // boot time of the last sign of a lease
}

// Register begins a session, and answers its first messages.
func (d *Daemon) Register() []*pb.NodeMessage {
	d.number++
	d.opened = d.Node.Boottime()
	return d.registry.Register(&pb.Register{
		Node: d.Node.Name, Inventory: d.Node.inventory(), Instance: d.instance, SentBoottimeNs: int64(d.opened), Images: d.Node.held(),
		Holds: d.toldOwned(),
	})
}

// Hear takes a message of the controller with which the present session is.
func (d *Daemon) Hear(message *pb.ControllerMessage) {
	switch what := message.GetWhat().(type) {
	case *pb.ControllerMessage_Registered:
		r := what.Registered
		d.leaseGranted(&pb.LeaseRenewed{SentBoottimeNs: r.GetSentBoottimeNs(), LeaseMs: r.GetLeaseMs(), LeaseMarginMs: r.GetLeaseMarginMs(), Allocs: r.GetAllocs()})
		d.keepLease(d.number, time.Duration(r.GetRenewEveryMs())*time.Millisecond, time.Duration(r.GetLeaseMs())*time.Millisecond)
	case *pb.ControllerMessage_LeaseRenewed:
		d.leaseGranted(what.LeaseRenewed)
	case *pb.ControllerMessage_AskRestore:
		d.askRestore(what.AskRestore)
	case *pb.ControllerMessage_KeepImages:
		d.keepImages(what.KeepImages)
	case *pb.ControllerMessage_FetchImage:
		d.fetchImage(what.FetchImage)
	case *pb.ControllerMessage_OwnerRules:
		d.changeOwned(func(o *owner.Owner, now owner.Time) bool { return o.SetRules(what.OwnerRules, now) }, nil)
	case *pb.ControllerMessage_DropHolds:
		d.changeOwned(func(o *owner.Owner, now owner.Time) bool { return o.Drop(what.DropHolds.GetThrough(), now) }, nil)
	default:
		d.obey(message)
	}
}

// Lost: the session is over.
func (d *Daemon) Lost() { d.number++ }

// leaseGranted passes an answer on to all supervisors.
func (d *Daemon) leaseGranted(renewed *pb.LeaseRenewed) {
	if !registry.Answers(renewed, d.opened, d.time()) {
		d.Node.World.Fail("%s was answered a request for a lease that it did not send in this session: %v", d.Node.Name, renewed)
		return
	}
	d.answered = d.Node.Boottime()
	for _, granted := range d.registry.Renewed(renewed) {
		if s := d.allocs[granted.Alloc.Key].shim; s != nil && s.Alive {
			d.Host.After(d.Node.between(0, 5*time.Millisecond), func() { s.renew(granted.Answer) })
		}
	}
}

// keepLease asks for the lease again and again, and ends the session when it is no longer
// answered.
func (d *Daemon) keepLease(session int, interval, patience time.Duration) {
	if d.number != session {
		return
	}
	if d.Node.Boottime()-d.answered > max(patience, 3*interval) {
		d.Host.HangUp("the lease is not renewed")
		return
	}
	d.Host.Send(d.registry.Renewal(d.time(), nil))
	d.Host.After(d.Node.InTrue(interval), func() { d.keepLease(session, interval, patience) })
}
