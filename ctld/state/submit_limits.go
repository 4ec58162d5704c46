package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
)

// Slurm's words for a submission that a limit refuses.
const textPolicyLimit = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"

// checkLimits refuses what limits and licenses do not allow, and bounds the
// time of a job that names none by the most that it may request. The spec has
// the defaults filled in, its account and QOS too.
func (s *State) checkLimits(asked *Spec, owner *Owner, association uint32, timeGiven bool) *Refusal {
	if refused := checkLicenses(s.policy, asked.Licenses); refused != nil || !s.policy.Accounting.EnforcesLimits() {
		return refused
	}
	counts := s.limitCounts()
	charge := sched.Charge{
		Association: counts.index.association(association), QOS: counts.index.qosNamed(asked.QOS), UID: owner.UID,
		Licenses: schedLicenses(&counts.snapshot, len(s.policy.Licenses), asked.Licenses),
	}
	if !timeGiven {
		charge.Partition = s.policy.Position(asked.Partitions[0])
		// Under MaxWall=0 no time is short enough: the limit says so below.
		if longest := counts.limiter.LongestS(charge); longest > 0 {
			asked.TimeLimitS = min(asked.TimeLimitS, longest)
		}
	}
	charge.TimeLimitS = asked.TimeLimitS
	if refused := counts.neverStarts(charge, s.policy, asked, owner); refused != nil {
		return refused
	}
	charge.Partition = s.policy.Position(asked.Partitions[0])
	tasks := int64(1)
	if asked.IsArray() {
		tasks = int64(ranges.Count(asked.ArrayTasks))
	}
	if reached := counts.limiter.StopsSubmission(charge, tasks); reached != nil {
		if s.policy.Hides("jobs") || s.policy.Hides("usage") {
			return refuse(Exhausted, "%s\n%s: as many jobs count under this limit as it allows. Submit again when some of them have ended", textPolicyLimit, explain.LimitReason(reached, counts.snapshot))
		}
		return refuse(Exhausted, "%s\n%s: %s. Submit again when some of them have ended", textPolicyLimit, explain.LimitReason(reached, counts.snapshot), explain.LimitSentence(reached, counts.snapshot))
	}
	return nil
}

// neverStarts refuses a job that limits keep from starting in all of its
// partitions. The message is about the first one.
func (c *limitCounts) neverStarts(charge sched.Charge, policy *policy.Policy, asked *Spec, owner *Owner) *Refusal {
	shape, err := shapeOf(asked, owner)
	if err != nil {
		return refuse(Invalid, "%v", err)
	}
	var first *sched.LimitReached
	for _, name := range asked.Partitions {
		charge.Partition = policy.Position(name)
		ask := c.limiter.AskLeast(charge, &shape.Request)
		reached := c.limiter.NeverStarts(charge, &ask)
		if reached == nil {
			return nil
		}
		if first == nil {
			first = reached
		}
	}
	return refuse(Invalid, "%s\n%s: %s", textPolicyLimit, explain.LimitReason(first, c.snapshot), explain.LimitSentence(first, c.snapshot))
}
