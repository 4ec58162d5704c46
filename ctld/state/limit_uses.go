package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// LimitUses says what counts for each limit, at one moment. It is made on
// request, and looks at each job that is not over and each node.
type LimitUses struct {
	view     *View
	snapshot sched.Snapshot
	index    *schedIndex
	limiter  *sched.Limiter
	names    map[uint32]string // of the users of its jobs
}

// LimitUses counts at a time in Unix milliseconds.
func (v *View) LimitUses(nowMS int64) *LimitUses {
	u := &LimitUses{view: v, names: map[uint32]string{}}
	u.snapshot, u.index = v.schedRules(nowMS)
	for _, job := range v.activeJobs() {
		u.snapshot.Running = append(u.snapshot.Running, u.index.runningLimits(&u.snapshot, v.policy, job))
	}
	u.limiter = sched.NewUses(&u.snapshot)
	for job := range v.LiveJobs() {
		u.names[job.Owner().UID] = job.Owner().User
		u.limiter.Submit(u.index.charge(v.policy, job), int64(job.TaskCount()))
	}
	return u
}

// TRES are the names of the amounts, in their order.
func (u *LimitUses) TRES() []string { return u.snapshot.TRES }

// Enforced reports whether limits are enforced.
func (u *LimitUses) Enforced() bool { return u.snapshot.Accounting.EnforceLimits }

// Association is what counts for an association with all below it.
func (u *LimitUses) Association(association *Association, depth int) *pb.AssociationUse {
	message := &pb.AssociationUse{Association: u.view.AssociationMessage(association, depth)}
	use := sched.Use{}
	if at := u.index.association(association.ID); at >= 0 {
		use = u.limiter.UseOf(int(at))
	}
	message.Use = u.message(use)
	return message
}

// QOS is what counts for a QOS, and for each account and user in it.
func (u *LimitUses) QOS(qos *QOS) *pb.QosUse {
	at := int(u.index.qosNamed(qos.Name))
	message := &pb.QosUse{Qos: QOSMessage(qos), Use: u.message(u.limiter.UseOfQOS(at))}
	for _, within := range u.limiter.UseWithinQOS(at) {
		alloc := &pb.UseWithin{Uid: within.UID, Use: u.message(within.Use)}
		if within.Account >= 0 {
			alloc.Account = u.snapshot.Associations[within.Account].Account
		} else {
			alloc.User = u.names[within.UID]
		}
		message.Within = append(message.Within, alloc)
	}
	return message
}

func (u *LimitUses) message(use sched.Use) *pb.LimitUse {
	return &pb.LimitUse{
		Jobs: uint64(use.Jobs), Submitted: uint64(use.Submitted), WallMinutes: uint64(use.WallMinutes),
		Tres: u.amounts(use.TRES), TresMinutes: u.amounts(use.TRESMinutes), TresRunMinutes: u.amounts(use.TRESRunMinutes),
	}
}

// amounts has an entry for each TRES, even for zero.
func (u *LimitUses) amounts(amounts sched.Amounts) []uint64 {
	out := make([]uint64, len(u.snapshot.TRES))
	for i, amount := range amounts {
		out[i] = uint64(max(amount, 0))
	}
	return out
}
