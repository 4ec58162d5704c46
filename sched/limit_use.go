package sched

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/billing"
)

// Use is what counts for the limits of an association with all below it, or
// for those of a QOS, or of a user or an account in one. Amounts over time have
// memory in MiB.
type Use struct {
	Jobs, Submitted int64
	TRES            Amounts // held
	TRESMinutes     Amounts // used so far
	TRESRunMinutes  Amounts // that running jobs may still use
	WallMinutes     int64   // used so far
}

// UseWithin is that of one user, or of one account, in a QOS.
type UseWithin struct {
	Account int32 // its association; -1 = it is the user's
	UID     uint32
	Use
}

// UseOf is what counts for an association.
func (l *Limiter) UseOf(association int) Use {
	return l.use(&l.counts[association], &l.Associations[association].Used)
}

// UseOfQOS is what counts for a QOS.
func (l *Limiter) UseOfQOS(qos int) Use {
	return l.use(&l.counts[len(l.Associations)+qos], &l.QOS[qos].Used)
}

// UseWithinQOS is what counts for each account, in the order of the tree, and
// for each user in a QOS.
func (l *Limiter) UseWithinQOS(qos int) []UseWithin {
	var uses []UseWithin
	for key, at := range l.within {
		if int(key.qos) == qos {
			uses = append(uses, UseWithin{Account: key.account, UID: key.uid, Use: l.use(&l.counts[at], &Used{})})
		}
	}
	slices.SortFunc(uses, func(a, b UseWithin) int {
		if (a.Account < 0) != (b.Account < 0) {
			return cmp.Compare(b.Account, a.Account)
		}
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.UID, b.UID))
	})
	return uses
}

func (l *Limiter) use(c *counted, past *Used) Use {
	u := Use{
		Jobs: c.jobs, Submitted: c.submitted, WallMinutes: billing.Add(past.wallS(), c.wallS) / 60,
		TRES: l.Index.New(), TRESMinutes: l.Index.New(), TRESRunMinutes: l.Index.New(),
	}
	copy(u.TRES, c.tres)
	for tres := range u.TRESMinutes {
		u.TRESMinutes[tres] = billing.Add(product(max(past.TRESMinutes.of(tres), 0), 60), c.spent.of(tres)) / 60
		u.TRESRunMinutes[tres] = c.left.of(tres) / 60
	}
	return u
}
