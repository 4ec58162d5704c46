package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
)

// This file checks starts and submissions against limits and licenses. It uses
// sched.Limiter, as a pass of the scheduler does.

// schedRules is what limits depend on: a snapshot without nodes and jobs.
func (t *tables) schedRules(nowMS int64) (sched.Snapshot, *schedIndex) {
	v := &View{tables: *t} // only read, and gone before the state changes
	snapshot := sched.Snapshot{NowMS: nowMS}
	index := &schedIndex{accountIndex: *v.schedAccounts(&snapshot, v.gpuModels())}
	v.schedShares(&snapshot, nil)
	v.schedPartitions(&snapshot, index)
	if limitsTime(&snapshot) {
		v.schedUsage(&snapshot, index)
	}
	return snapshot, index
}

// charge is the user and association that a job counts for, without its
// licenses. A job without a run counts for the first of its partitions.
func (x *schedIndex) charge(policy *policy.Policy, job *Job) sched.Charge {
	partition := ""
	if job.Run != nil {
		partition = job.Run.Partition
	} else if len(job.Spec.Partitions) > 0 {
		partition = job.Spec.Partitions[0]
	}
	return sched.Charge{
		Job: sched.JobID(job.ID), Association: x.association(job.Association), QOS: x.qosNamed(job.Spec.QOS),
		Partition: policy.Position(partition), UID: job.Owner().UID, TimeLimitS: job.TimeLimitS(),
	}
}

// amountsOf is what an allocation of a run holds.
func amountsOf(x *sched.TRESIndex, alloc *Alloc) sched.Amounts {
	amounts := x.New()
	x.AddNode(amounts, uint64(len(alloc.CPUs)), alloc.MemoryBytes)
	for i := range alloc.Devices {
		x.AddGPUs(amounts, alloc.Devices[i].Model, 1)
	}
	return amounts
}

// runningLimits is a job that holds nodes as limits see it: its released
// allocations no longer count.
func (x *schedIndex) runningLimits(snapshot *sched.Snapshot, policy *policy.Policy, job *Job) sched.Running {
	if x.held == nil {
		x.held = sched.NewTRESIndex(snapshot.TRES, snapshot.Licenses)
	}
	c := x.charge(policy, job)
	running := sched.Running{
		ID: c.Job, StartMS: job.Run.StartMS, TimeLimitS: c.TimeLimitS, Partition: c.Partition,
		Association: c.Association, QOS: c.QOS, UID: c.UID, Exclusive: job.Spec.Exclusive,
		Licenses: schedLicenses(snapshot, len(policy.Licenses), job.Spec.Licenses), TRES: x.held.New(),
		Suspended: job.Suspended(), PausedMS: job.Run.pausedMS(snapshot.NowMS), ChargedMS: job.Run.chargedMS(),
	}
	for i := range job.Run.Allocs {
		if alloc := &job.Run.Allocs[i]; !alloc.Released {
			for tres, amount := range amountsOf(x.held, alloc) {
				running.TRES[tres] += amount
			}
		}
	}
	var weights []int64
	if c.Partition >= 0 {
		weights = snapshot.Partitions[c.Partition].BillingWeights
	}
	x.held.Complete(running.TRES, running.Licenses, weights, snapshot.Priority.MaxTRES)
	return running
}

// activeJobs are those that hold nodes, ascending. It looks at the nodes, not
// at all jobs that wait.
func (t *tables) activeJobs() []*Job {
	jobs := make([]*Job, 0, t.active)
	for node := range values(t.nodes) {
		for _, id := range node.use.jobs {
			if job, _ := t.live.Get(id); job.firstHeld() == node.Name {
				jobs = append(jobs, job)
			}
		}
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs
}

// firstHeld is the first node that a job holds.
func (j *Job) firstHeld() string {
	for i := range j.Run.Allocs {
		if !j.Run.Allocs[i].Released {
			return j.Run.Allocs[i].Node
		}
	}
	return ""
}

// placing checks the starts of one command.
type placing struct {
	policy   *policy.Policy
	snapshot *sched.Snapshot
	index    *schedIndex
	limiter  *sched.Limiter
	kept     bool // the limiter is the State's, which counts each start itself
}

// newPlacing returns nil when nothing is limited. If a limit is over time all
// running jobs are counted again.
func (s *State) newPlacing() *placing {
	accounting := s.policy.Accounting
	if !accounting.EnforcesLimits() && len(s.policy.Licenses) == 0 {
		return nil
	}
	if counts := s.limitCounts(); counts.all {
		return &placing{policy: s.policy, snapshot: &counts.snapshot, index: counts.index, limiter: counts.limiter, kept: true}
	}
	snapshot, index := s.schedRules(s.timeMS)
	for _, job := range s.activeJobs() {
		snapshot.Running = append(snapshot.Running, index.runningLimits(&snapshot, s.policy, job))
	}
	return &placing{policy: s.policy, snapshot: &snapshot, index: index, limiter: sched.NewLimiter(&snapshot)}
}

// admit says which limit a start would exceed. It counts the starts that it
// admits.
func (p *placing) admit(job *Job, run *Run) error {
	if p == nil {
		if len(job.Spec.Licenses) > 0 {
			return fmt.Errorf("job %d needs license %s, of which there is none", job.ID, job.Spec.Licenses[0].Name)
		}
		return nil
	}
	for _, license := range job.Spec.Licenses {
		if _, known := p.policy.FindLicense(license.Name); !known {
			return fmt.Errorf("job %d needs license %s, of which there is none", job.ID, license.Name)
		}
	}
	started := *job
	started.Run = run
	c := p.index.charge(p.policy, &started)
	c.Licenses = schedLicenses(p.snapshot, len(p.policy.Licenses), job.Spec.Licenses)
	allocs := make([]sched.Amounts, len(run.Allocs))
	for i := range run.Allocs {
		allocs[i] = amountsOf(p.limiter.Index, &run.Allocs[i])
	}
	ask := p.limiter.AskHeld(c, allocs)
	if reached := p.limiter.Stops(c, &ask); reached != nil {
		return fmt.Errorf("job %d may not start (%s): %s", job.ID, explain.LimitReason(reached, *p.snapshot), explain.LimitSentence(reached, *p.snapshot))
	}
	if !p.kept {
		p.limiter.Take(c, ask.Amounts)
	}
	return nil
}
