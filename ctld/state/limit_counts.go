package state

import (
	"fmt"
	"maps"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
)

// limitCounts counts what waits and runs, for limits and licenses. It belongs
// to the State alone, is built when the first command asks for it, and the
// index functions keep it up to date until accounts or the policy change. An
// answer depends only on the jobs, limits and policy, so it does not matter
// when it was built.
type limitCounts struct {
	policy   *policy.Policy // as it was
	snapshot sched.Snapshot
	index    *schedIndex
	limiter  *sched.Limiter
	all      bool // no limit is over time: these counts cover all that runs
}

// limitCounts returns the counts, and makes them if they are not there.
func (s *State) limitCounts() *limitCounts {
	if s.counts != nil {
		return s.counts
	}
	c := &limitCounts{policy: s.policy}
	c.snapshot, c.index = s.schedRules(s.timeMS)
	c.limiter, c.all = sched.NewKept(&c.snapshot)
	s.live.Scan(func(_ uint32, job *Job) bool {
		c.add(job)
		return true
	})
	s.counts = c
	return c
}

// add counts a record that is not over.
func (c *limitCounts) add(job *Job) {
	if c == nil || job.Phase == Finished {
		return
	}
	charge := c.index.charge(c.policy, job)
	c.limiter.Submit(charge, int64(job.TaskCount()))
	if job.HoldsNodes() {
		charge.Licenses = c.licenses(job)
		c.limiter.Take(charge, c.index.runningLimits(&c.snapshot, c.policy, job).TRES)
	}
}

// remove takes back what add counted.
func (c *limitCounts) remove(job *Job) {
	if c == nil || job.Phase == Finished {
		return
	}
	charge := c.index.charge(c.policy, job)
	c.limiter.Submit(charge, -int64(job.TaskCount()))
	if job.HoldsNodes() {
		charge.Licenses = c.licenses(job)
		c.limiter.Return(charge, c.index.runningLimits(&c.snapshot, c.policy, job).TRES)
	}
}

// licenses are those of a job that the policy has.
func (c *limitCounts) licenses(job *Job) []sched.LicenseCount {
	var known []policy.License
	for _, license := range job.Spec.Licenses {
		if _, is := c.policy.FindLicense(license.Name); is {
			known = append(known, license)
		}
	}
	return schedLicenses(&c.snapshot, len(c.policy.Licenses), known)
}

// checkLimitCounts compares the counts with rebuilt ones.
func (s *State) checkLimitCounts() error {
	if s.counts == nil {
		return nil
	}
	kept := s.counts
	s.counts = nil
	fresh := s.limitCounts()
	s.counts = kept
	if have, want := kept.limiter.Counts(), fresh.limiter.Counts(); !maps.Equal(have, want) {
		return fmt.Errorf("for limits is counted %v, and there is %v", have, want)
	}
	return nil
}
