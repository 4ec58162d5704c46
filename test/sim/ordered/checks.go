package ordered

import (
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// Failure is an invariant that did not hold.
type Failure struct {
	At   time.Duration
	What string
}

func (f *Failure) Error() string { return f.What }

// Class is which invariant it was.
func (f *Failure) Class() string {
	class, _, _ := strings.Cut(f.What, ":")
	return class
}

// fail notes the first invariant that does not hold; the run ends with it.
func (w *World) fail(format string, arguments ...any) {
	if w.failure == nil {
		w.failure = &Failure{At: w.now, What: fmt.Sprintf(format, arguments...)}
		w.trace("check", "FAILED: %s", w.failure.What)
	}
}

// Counting a whole state from its records takes longer than all else that an entry
// leads to. What is wrong in one stays wrong for more than a few entries, as a rule.
var (
	checkEvery = prototest.Soak(8, 1)    // entries between two checks of the state's invariants
	hashEvery  = prototest.Soak(256, 64) // and between two comparisons of whole states
)

// checkApplied looks at a controller that has just applied an entry: at each
// index all get the same result, and now and then the whole state is looked at.
func (w *World) checkApplied(c *controller, result *state.Result) {
	sum := w.sumOf(result)
	if first := c.applied > len(w.sums); first {
		w.sums = append(w.sums, sum)
		w.account(c, result)
		w.meets(result)
		if c.applied%checkEvery == 0 {
			w.checkState(c)
		}
	} else if w.sums[c.applied-1] != sum {
		w.fail("states differ: %s answers entry %d otherwise than another did", c.name, c.applied)
	}
	if c.applied%hashEvery == 0 {
		digest := c.digest()
		if other, known := w.digests[c.applied]; !known {
			w.digests[c.applied] = digest
		} else if other != digest {
			w.fail("states differ: at entry %d %s has %s, another %s", c.applied, c.name, digest, other)
		}
	}
}

// checkState holds the state's own invariants.
func (w *World) checkState(c *controller) {
	if err := c.state.Check(); err != nil {
		w.fail("state: after entry %d: %v", c.applied, err)
	}
}

// sumOf is the sum of what an entry led to.
func (w *World) sumOf(r *state.Result) uint64 {
	text := fmt.Append(w.text[:0], uint16(r.Kind), r.TimeMS, r.JobID, r.Repeated, r.ChangedJobs, r.ChangedNodes, r.PurgedJobs)
	if r.Refused != nil {
		text = append(text, r.Refused.Message...)
	}
	for i := range r.Jobs {
		text = fmt.Append(text, r.Jobs[i])
	}
	for i := range r.Starts {
		text = fmt.Append(text, r.Starts[i])
	}
	for i := range r.Preemptions {
		text = fmt.Append(text, r.Preemptions[i])
	}
	w.text = text
	return xxhash.Sum64(text)
}

// account follows each accepted number, from the first controller that applies
// an entry.
func (w *World) account(c *controller, result *state.Result) {
	view := c.state.View()
	if change := w.changes[result.RequestID]; change != nil && result.Refused == nil && !result.Repeated {
		change(result)
	}
	w.truth.away.hears(view, result)
	w.owned.hears(view, result)
	for _, id := range result.ChangedJobs {
		if job, known := view.Job(id); known {
			w.truth.follow(result, job, w.phases[id])
			w.phases[id] = job.Phase
		}
	}
	w.startOver(result)
	moved := w.live(view, result.ChangedJobs)
	if result.JobID != 0 && result.Refused == nil && !result.Repeated {
		w.accepted(view, result.JobID)
	}
	w.decide(moved)
	for i, start := range result.Starts {
		if start.Dropped == "" {
			w.Started++
			if job, _ := view.Job(start.Job); job.Run.Fills {
				w.Filled++
			}
			w.trace("log", "job %d starts, epoch %d", start.Job, start.Epoch)
			w.checkStart(view, start.Job, result.Starts[i+1:])
		}
	}
	if result.Kind == state.KindPlaceJobs || result.Kind == state.KindBarrier {
		w.truth.checkWaiting(view)
	}
	if result.Kind == state.KindReclaimNodes && result.Refused == nil {
		w.Reclaimed += len(result.Nodes)
	}
	for _, p := range result.Preemptions {
		if p.Dropped == "" {
			w.Preempted++
			if p.Saving {
				w.Leaving++
			}
			w.trace("log", "job %d is preempted for job %d", p.Job, p.For)
			w.checkForEver(p.Job, p.For)
		}
	}
	for _, id := range result.PurgedJobs {
		w.purged[id] = w.now
		w.forgotten[w.numbers[id]] = true
	}
	for _, id := range result.ChangedJobs {
		job, known := view.Job(id)
		if !known {
			continue
		}
		if job.Restarts > w.restarts[id] {
			w.Requeued++
			w.requeuedNow = true
			w.trace("log", "job %d waits again: %s", id, job.Detail)
			w.checkRequeued(job)
		}
		w.restarts[id] = job.Restarts
		if job.Phase == state.Finished {
			w.finished(job)
		} else {
			delete(w.over, id)
		}
	}
}

// mostForOne is how often one job may make room for another. It may do so again and
// again where that fails to start, or has to make room itself; but not for ever.
const mostForOne = 40

// checkForEver: no two jobs take the room from each other without end.
func (w *World) checkForEver(victim, by uint32) {
	pair := [2]uint32{victim, by}
	w.madeRoom[pair]++
	if w.madeRoom[pair] > mostForOne {
		w.fail("for ever: job %d makes room for job %d for the %dth time", victim, by, w.madeRoom[pair])
	}
}

// checkStart: what a job waits for beside resources is so when it starts. Others
// are started after it by the same entry.
func (w *World) checkStart(view *state.View, id uint32, after []state.StartResult) {
	job, _ := view.Job(id)
	w.truth.checkDue(view, job)
	in := w.intents[job.Own().Comment]
	if in == nil {
		return // told when it was accepted
	}
	w.checkGuest(view, in, job)
	w.checkAlone(in, after)
	w.checkDependencies(in, job)
	w.checkTimes(in, job)
	w.checkThrottle(in, job)
}

// checkRequeued holds when no result was thrown away that a node had: then a
// job would be run again that has ended.
func (w *World) checkRequeued(job *state.Job) {
	saw := w.truth.results[registry.Key{Job: job.ID, Epoch: w.truth.workOf(job.ID).former}]
	if saw.GetCause() == pb.EndCause_END_CAUSE_EXITED && strings.Contains(job.Detail, "registered without it") {
		w.fail("lost: the result of job %d run %d, which its node saw end", job.ID, job.Epoch)
	}
}

// accepted notes a submission that took effect. The name says which intent of
// a user's it came from.
func (w *World) accepted(view *state.View, id uint32) {
	job, _ := view.Job(id)
	intent := w.intents[job.Own().Comment]
	switch {
	case intent == nil:
		w.fail("job %d was accepted and nobody wanted it", id)
	case intent.job != 0:
		w.fail("doubled: what user %d asked for once (%s) is both job %d and %d", intent.uid, intent.name, intent.job, id)
	default:
		intent.job = id
		w.Accepted++
		w.trace("log", "job %d is accepted: %s %s", id, intent.name, intent.spec.GetDependency())
		for i := range intent.wishes {
			on := intent.wishes[i].on.job
			w.dependents[on] = append(w.dependents[on], intent)
		}
		w.decideFor(intent)
	}
}

// finished checks that the result of a job is the one that its node saw.
func (w *World) finished(job *state.Job) {
	if w.over[job.ID] {
		return
	}
	w.over[job.ID] = true
	w.Finished++
	w.trace("log", "job %d is over: %v, exit code %d", job.ID, job.State(), job.End.ExitCode)
	saw := w.truth.results[registry.Key{Job: job.ID, Epoch: job.Epoch}]
	switch job.State() {
	case pb.JobState_JOB_STATE_COMPLETED:
		if saw == nil || saw.GetCause() != pb.EndCause_END_CAUSE_EXITED || saw.GetExitCode() != 0 {
			w.fail("wrong result: job %d run %d is COMPLETED, its node saw %v", job.ID, job.Epoch, saw)
		}
	case pb.JobState_JOB_STATE_FAILED:
		if saw == nil || saw.GetExitCode() != job.End.ExitCode {
			w.fail("wrong result: job %d run %d FAILED with exit code %d, its node saw %v", job.ID, job.Epoch, job.End.ExitCode, saw)
		}
	case pb.JobState_JOB_STATE_DEADLINE:
		w.checkLate(w.intents[job.Own().Comment], job)
	}
	if job.End.Reason == state.ReasonDependencyNeverSatisfied {
		w.checkInvalid(w.intents[job.Own().Comment], job)
	}
}

// checkQuiet says what is still under way; "" when everything has ended.
func (w *World) checkQuiet() string {
	lead := w.log.leader
	if lead == nil || !lead.leading {
		return "no controller leads"
	}
	counts := lead.View().Counts()
	if counts.Waiting+counts.Active > 0 {
		return fmt.Sprintf("%d jobs wait and %d are active, one is %s", counts.Waiting, counts.Active, lead.firstLive())
	}
	for _, m := range w.machines {
		if len(m.Shims) > 0 {
			return fmt.Sprintf("%s still has %d allocations, one is %s", m.Name, len(m.Shims), m.ShimsInOrder()[0].Key)
		}
	}
	for _, m := range w.machines {
		if made := m.Made(); len(made) > 0 {
			return fmt.Sprintf("%s still has %d images, one is %s", m.Name, len(made), made[0])
		}
		if copies := m.Copies(); len(copies) > 0 {
			return fmt.Sprintf("%s still has %d copies, one is of %s", m.Name, len(copies), copies[0])
		}
	}
	for _, c := range w.controllers {
		if c.applied != len(w.log.entries) {
			return c.name + " has not applied all"
		}
	}
	return ""
}

// firstLive says of a job that waits or runs why it still does.
func (c *controller) firstLive() string {
	view := c.state.View()
	for job := range view.LiveJobs() {
		overlay, _ := c.leader.Overlay(job.ID)
		message := view.JobMessage(job, overlay, state.JobDetail{})
		return fmt.Sprintf("job %d, %v: %s; %s%s", job.ID, message.GetState(), message.GetReason(), job.Detail, holds(job))
	}
	return "none"
}

// holds says which runs of a job hold nodes.
func holds(job *state.Job) (text string) {
	if job.Run == nil {
		return ""
	}
	text = fmt.Sprintf("; run %d", job.Epoch)
	for _, alloc := range job.Run.Allocs {
		text += fmt.Sprintf(" on %s, released %t", alloc.Node, alloc.Released)
	}
	for i := range job.Run.Beside {
		b := &job.Run.Beside[i]
		text += fmt.Sprintf("; beside it, over %t, run %d", b.Over, b.Epoch)
		for _, alloc := range b.Run.Allocs {
			text += fmt.Sprintf(" on %s, released %t", alloc.Node, alloc.Released)
		}
	}
	return text
}

// checkEnd holds when all is quiet.
func (w *World) checkEnd() {
	digest := w.controllers[0].digest()
	for _, c := range w.controllers {
		if other := c.digest(); other != digest {
			w.fail("states differ: at the end %s has %s, %s has %s", w.controllers[0].name, digest, c.name, other)
		}
		if err := c.state.Check(); err != nil {
			w.fail("state: at the end: %v", err)
		}
	}
	if len(w.truth.devices) > 0 {
		w.fail("devices not free: %d are held with nothing running", len(w.truth.devices))
	}
	for _, intent := range w.intentList {
		if intent.submit.done && intent.submit.jobID != 0 && intent.submit.jobID != intent.job {
			w.fail("lost: %s was answered job %d, the log has %d", intent.name, intent.submit.jobID, intent.job)
		}
	}
}
