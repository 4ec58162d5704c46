package state

import "github.com/gleaner-hpc/gleaner/ctld/state/policy"

// ResetUsage resets the usage of all accounts, users and QOS, except for QOS
// that do not decay. The leader says which moment it is for: when one of its
// calendar's days, weeks, … began. It may be applied twice without harm.
type ResetUsage struct {
	Period policy.ResetPeriod `cbor:"1,keyasint"`
	DueMS  int64              `cbor:"2,keyasint"`
}

func (ResetUsage) kind() Kind { return KindResetUsage }
func (c ResetUsage) apply(s *State, _ *Result) {
	if c.Period == s.policy.Priority.UsageReset && c.DueMS > s.resetFromMS && c.DueMS <= s.timeMS {
		s.resetUsage()
	}
}

// UsageReset is how often usage is reset, and when it was last: the next time
// comes after that.
func (t *tables) UsageReset() (period policy.ResetPeriod, sinceMS int64) {
	return t.policy.Priority.UsageReset, t.resetFromMS
}

// resetUsage resets all usage. Running jobs are charged first, so that a QOS
// that does not decay keeps that, and count from now on.
func (s *State) resetUsage() {
	s.resetFromMS = s.timeMS
	for _, job := range s.activeJobs() {
		s.chargeUsage(job)
		next, run := *job, *job.Run
		run.ForgottenMS = s.timeMS
		next.Run = &run
		s.putJob(&next)
	}
	var associations []*Association
	for association := range values(s.associations) {
		if association.Usage.AtMS != 0 {
			next := *association
			next.Usage = Usage{}
			associations = append(associations, &next)
		}
	}
	for _, association := range associations {
		s.putAssociation(association)
	}
	var all []*QOS
	for qos := range s.AllQOS() {
		if qos.Usage.AtMS != 0 && !qos.NoDecay {
			next := *qos
			next.Usage = Usage{}
			all = append(all, &next)
		}
	}
	for _, qos := range all {
		s.putQOS(qos)
	}
}
