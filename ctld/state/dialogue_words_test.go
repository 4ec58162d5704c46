package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file writes the answers of dialogues.

func describe(result *Result) string {
	var out strings.Builder
	if result.Repeated {
		out.WriteString("repeated\n")
	}
	if result.Refused != nil {
		fmt.Fprintf(&out, "refused (%d): %s\n", result.Refused.Code, result.Refused.Message)
	}
	if result.Reservation != "" {
		fmt.Fprintf(&out, "reservation %s\n", result.Reservation)
	}
	if result.JobID != 0 {
		fmt.Fprintf(&out, "job %d\n", result.JobID)
	}
	for _, job := range result.Jobs {
		if job.Image != 0 {
			fmt.Fprintf(&out, "image %d of ", job.Image)
		}
		fmt.Fprintf(&out, "%s: %s\n", describeID(job.Job, job.Array, job.HasTask, job.Task, job.Tasks), describeCode(job))
	}
	for _, start := range result.Starts {
		if start.Dropped != "" {
			fmt.Fprintf(&out, "%d dropped: %s\n", start.Asked, start.Dropped)
		} else {
			fmt.Fprintf(&out, "%d starts as %d.%d\n", start.Asked, start.Job, start.Epoch)
		}
	}
	for _, p := range result.Preemptions {
		fmt.Fprintln(&out, describePreemption(p))
	}
	for _, c := range result.Continued {
		if c.Dropped != "" {
			fmt.Fprintf(&out, "%d stays suspended: %s\n", c.Job, c.Dropped)
		} else {
			fmt.Fprintf(&out, "%d.%d continues\n", c.Job, c.Epoch)
		}
	}
	if len(result.ChangedJobs) > 0 {
		fmt.Fprintf(&out, "changed jobs %v\n", result.ChangedJobs)
	}
	if len(result.ChangedNodes) > 0 {
		fmt.Fprintf(&out, "changed nodes %v\n", result.ChangedNodes)
	}
	if len(result.PurgedJobs) > 0 {
		fmt.Fprintf(&out, "purged %v\n", result.PurgedJobs)
	}
	return out.String()
}

func describeCode(job JobResult) string {
	words := map[Code]string{OK: "done", AlreadyDone: "already", NotFound: "not found", Denied: "denied", WrongState: "wrong state", Invalid: "invalid", Exhausted: "exhausted"}
	if job.Message == "" {
		return words[job.Code]
	}
	return words[job.Code] + ": " + job.Message
}

func describeID(job, array uint32, hasTask bool, task uint32, tasks []ranges.Range) string {
	switch {
	case hasTask:
		return fmt.Sprintf("%d=%d_%d", job, array, task)
	case len(tasks) > 0:
		return fmt.Sprintf("%d=%d_[%s]", job, array, spec.FormatArray(ranges.Messages(tasks), 0))
	}
	return fmt.Sprint(job)
}

func (d *dialogue) jobs() string {
	v := d.state.View()
	var out strings.Builder
	for job := range v.Jobs(0) {
		message := v.JobMessage(job, Overlay{}, JobDetail{})
		fmt.Fprintf(&out, "%s %s", describeID(job.ID, job.Array, job.HasTask, job.Task, job.Tasks), spec.StateCode(message.State))
		for _, flag := range []struct {
			set  bool
			word string
		}{{message.Completing, " completing"}, {message.Configuring, " configuring"}} {
			if flag.set {
				out.WriteString(flag.word)
			}
		}
		fmt.Fprintf(&out, " epoch=%d", job.Epoch)
		if job.Restarts > 0 {
			fmt.Fprintf(&out, " restarts=%d", job.Restarts)
		}
		if message.SuspendMs != 0 {
			fmt.Fprintf(&out, " ran=%d turned=%d", message.PreSuspendMs/1000, (d.state.timeMS-message.SuspendMs)/1000)
		}
		if message.NodeList != "" {
			fmt.Fprintf(&out, " nodes=%s", message.NodeList)
		}
		if message.Reason != "None" {
			fmt.Fprintf(&out, " reason=%s", message.Reason)
		}
		out.WriteString(d.describeWaits(job, message))
		if job.End != nil {
			fmt.Fprintf(&out, " exit=%d:%d", message.ExitCode, message.ExitSignal)
		}
		if message.CancelledByUid != nil {
			fmt.Fprintf(&out, " by=%d", *message.CancelledByUid)
		}
		if message.Usage.GetCpuNs() > 0 {
			fmt.Fprintf(&out, " peak=%d cpu=%d", message.Usage.PeakMemoryBytes, message.Usage.CpuNs)
		}
		if message.ReasonDetail != "" {
			fmt.Fprintf(&out, " (%s)", message.ReasonDetail)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (d *dialogue) nodes() string {
	v := d.state.View()
	var out strings.Builder
	for node := range v.Nodes() {
		m := v.NodeMessage(node)
		fmt.Fprintf(&out, "%s %s", m.Name, strings.TrimPrefix(m.State.String(), "NODE_STATE_"))
		if m.NotResponding {
			out.WriteString("*")
		}
		if m.Drain {
			out.WriteString("+DRAIN")
		}
		fmt.Fprintf(&out, " in %s cpus=%d/%d", strings.Join(m.Partitions, ","), m.AllocatedCpus, m.Inventory.GetCpus())
		if len(m.AllocatedDeviceIds) > 0 {
			fmt.Fprintf(&out, " devices=%s", strings.Join(m.AllocatedDeviceIds, ","))
		}
		if len(m.RunningJobs) > 0 {
			fmt.Fprintf(&out, " jobs=%v", m.RunningJobs)
		}
		if m.OwnerAccount != "" {
			fmt.Fprintf(&out, " owner=%s", m.OwnerAccount)
		}
		if m.Reason != "" {
			fmt.Fprintf(&out, " (%s: %s)", m.ReasonUser, m.Reason)
		}
		if e := m.Evacuation; e != nil {
			fmt.Fprintf(&out, " evacuated since %+d s", (e.AtMs-d.nowMS)/1000)
			if e.DeadlineMs != 0 {
				fmt.Fprintf(&out, " until %+d s", (e.DeadlineMs-d.nowMS)/1000)
			}
			for _, job := range e.Jobs {
				fmt.Fprintf(&out, ", %d %s", job.Job, job.State)
			}
		}
		out.WriteString(d.reclaimText(m.Reclaim))
	}
	return out.String()
}

func (d *dialogue) wanted(node string) string {
	var out strings.Builder
	for _, w := range d.state.View().WantedAllocs(node) {
		fmt.Fprintf(&out, "%d.%d", w.Job, w.Epoch)
		switch {
		case w.Action == EndAlloc && w.BatchEnded:
			fmt.Fprintf(&out, " end, for its script has ended, grace %d s", w.GraceS)
		case w.Action == EndAlloc && w.TermAgainS > 0:
			fmt.Fprintf(&out, " end, TERM again after %d s, grace %d s", w.TermAgainS, w.GraceS)
		case w.Action == EndAlloc:
			fmt.Fprintf(&out, " end, grace %d s", w.GraceS)
		case w.Park:
			fmt.Fprintf(&out, " park by order %d", w.SuspendNumber)
			if w.ParkByMS == ParkAtLeisureMS {
				out.WriteString(" at leisure")
			} else {
				fmt.Fprintf(&out, " in %d s", (w.ParkByMS-d.nowMS)/1000)
			}
		case w.Suspended:
			fmt.Fprintf(&out, " stand still by order %d", w.SuspendNumber)
		case w.SuspendNumber != 0:
			fmt.Fprintf(&out, " run by order %d", w.SuspendNumber)
		default:
			out.WriteString(" run")
		}
		if w.EndByMS != 0 {
			fmt.Fprintf(&out, ", over in %d s", (w.EndByMS-d.nowMS)/1000)
		}
		if w.ReleaseBatch {
			out.WriteString(", release the script")
		}
		switch {
		case w.Save != 0 && w.Stand:
			fmt.Fprintf(&out, ", save image %d and stand", w.Save)
		case w.Save != 0:
			fmt.Fprintf(&out, ", save image %d", w.Save)
		case w.Abandon != 0:
			fmt.Fprintf(&out, ", no image %d", w.Abandon)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (d *dialogue) snapshot() string {
	snapshot := d.state.View().SchedSnapshot(d.nowMS)
	var out strings.Builder
	for i, shape := range snapshot.Shapes {
		fmt.Fprintf(&out, "shape %d: partitions %v time %s cpus/task %d\n", i, shape.Partitions, spec.FormatTime(shape.TimeLimitS), shape.Request.CPUsPerTask)
	}
	slices.SortFunc(snapshot.Waiting, func(a, b sched.Job) int { return int(a.ID) - int(b.ID) })
	for _, job := range snapshot.Waiting {
		fmt.Fprintf(&out, "job %d shape %d tasks %d", job.ID, job.Shape, job.Tasks)
		if job.Throttled {
			out.WriteString(" throttled")
		}
		if job.Held != 0 {
			fmt.Fprintf(&out, " held %d", job.Held)
		}
		out.WriteString("\n")
	}
	for i := range snapshot.Running {
		if r := &snapshot.Running[i]; r.Suspended || r.PausedMS > 0 {
			fmt.Fprintf(&out, "running %d suspended=%t continues=%t paused %d s, to get back %d allocations\n", r.ID, r.Suspended, r.Continues, r.PausedMS/1000, len(r.Back))
		}
	}
	for _, node := range snapshot.Nodes {
		fmt.Fprintf(&out, "node %s available=%t free CPUs %s\n", node.Name, node.Available, node.FreeCPUs)
	}
	return out.String()
}
