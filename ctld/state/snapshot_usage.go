package state

import (
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/fairshare"
)

// schedUsage fills in what associations and QOS have used up to the snapshot's
// time. The usage for fair share counts what runs; that for limits over time
// does not, because the pass counts it by itself.
func (v *View) schedUsage(snapshot *sched.Snapshot, index *schedIndex) {
	halfLife := v.policy.Priority.HalfLifeS()
	limited := limitsTime(snapshot)
	for association := range values(v.associations) {
		at := index.association(association.ID)
		if at < 0 {
			continue
		}
		out := &snapshot.Associations[at]
		out.UsageRaw = fairshare.Decay(association.Usage.Raw, snapshot.NowMS-association.Usage.AtMS, halfLife)
		if limited {
			usage := association.Usage.decayed(snapshot.NowMS, halfLife)
			out.Used = index.used(&usage, len(snapshot.TRES))
		}
	}
	for qos := range v.AllQOS() {
		if limited {
			usage := qos.Usage.decayed(snapshot.NowMS, qos.halfLifeS(v.policy))
			snapshot.QOS[index.qosNamed(qos.Name)].Used = index.used(&usage, len(snapshot.TRES))
		}
	}
	if len(snapshot.Associations) == 0 {
		return
	}
	v.live.Scan(func(_ uint32, job *Job) bool {
		at := index.association(job.Association)
		if at < 0 || !job.HoldsNodes() {
			return true
		}
		out := &snapshot.Associations[at]
		qos, known := v.QOS(job.Spec.QOS)
		if !known {
			qos = nil
		}
		rate := times(job.Run.billing(), int64(qos.usageFactorPPM()), wholePPM)
		out.UsageRaw = fairshare.Add(out.UsageRaw, fairshare.Used(rate, job.Run.chargedMS(), snapshot.NowMS, halfLife))
		return true
	})
	for i := len(snapshot.Associations) - 1; i > 0; i-- { // below before above
		below := &snapshot.Associations[i]
		above := &snapshot.Associations[below.Parent]
		above.UsageRaw = fairshare.Add(above.UsageRaw, below.UsageRaw)
		above.Used.WallMinutes += below.Used.WallMinutes
		for t := range below.Used.TRESMinutes {
			above.Used.TRESMinutes[t] = fairshare.Add(above.Used.TRESMinutes[t], below.Used.TRESMinutes[t])
		}
	}
}

// limitsTime reports whether any limit is one over time.
func limitsTime(snapshot *sched.Snapshot) bool {
	for i := range snapshot.Associations {
		if l := &snapshot.Associations[i].Limits; l.GroupTRESMinutes != nil || l.GroupWallMinutes >= 0 {
			return true
		}
	}
	for i := range snapshot.QOS {
		if l := &snapshot.QOS[i].Limits; l.GroupTRESMinutes != nil || l.GroupWallMinutes >= 0 {
			return true
		}
	}
	return false
}

// used is usage in minutes, as limits count it.
func (x *schedIndex) used(usage *Usage, tres int) sched.Used {
	out := sched.Used{TRESMinutes: make(sched.Amounts, tres), WallMinutes: usage.WallSeconds / usageUnitsPerMinute}
	for _, amount := range usage.TRESSeconds {
		if at, known := x.tres[amount.Name]; known {
			out.TRESMinutes[at] = int64(amount.Count / usageUnitsPerMinute)
		}
	}
	if at, known := x.tres[sched.TRESBilling]; known {
		out.TRESMinutes[at] = usage.Raw / usageUnitsPerMinute
	}
	return out
}

// usageUnitsPerMinute is a minute in the units of Usage.
const usageUnitsPerMinute = 60 << 10
