package show

import (
	"cmp"
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// JobRecordOf is a job as "scontrol show job" prints it, and after that what
// only Gleaner knows.
func JobRecordOf(row *JobRow, details bool) *Record {
	r := &Record{}
	jobIdentity(r, row)
	jobTimes(r, row)
	jobPlace(r, row, details)
	jobRequest(r, row)
	jobOwn(r, row)
	return r
}

func jobIdentity(r *Record, row *JobRow) {
	job, asked, owner := row.job, row.job.GetSpec(), row.job.GetOwner()
	first := []string{Item("JobId", Digits(job.GetId().GetJob()))}
	if tasks := row.tasks(); tasks != "" {
		first = append(first, Item("ArrayJobId", Digits(row.arrayJob())), Item("ArrayTaskId", tasks))
		if throttle := job.GetWaitingTasks().GetMaxRunning(); throttle > 0 {
			first = append(first, Item("ArrayTaskThrottle", Digits(throttle)))
		}
	}
	r.Line(append(first, Item("JobName", asked.GetName()))...)
	r.Line(Item("UserId", fmt.Sprintf("%s(%d)", owner.GetUser(), owner.GetUid())),
		Item("GroupId", fmt.Sprintf("%s(%d)", owner.GetGroup(), owner.GetGid())), "MCS_label=N/A")
	r.Line(Item("Priority", Digits(job.Priority)), Item("Nice", Digits(asked.GetNice())),
		Item("Account", OrNull(asked.GetAccount())), Item("QOS", QosOf(job)))
	r.Line(Item("JobState", StateName(job)), Item("Reason", reasonText(job)), Item("Dependency", OrNull(asked.GetDependency())))
	r.Line(Item("Requeue", oneZero(asked.GetRequeue())), Item("Restarts", Digits(job.RestartCount)), "BatchFlag=1", "Reboot=0", Item("ExitCode", exitText(job)))
}

func jobTimes(r *Record, row *JobRow) {
	job, view := row.job, row.view
	used := view.usedSeconds(job)
	r.Line(Item("RunTime", clockText(uint32(max(used, 0)))), Item("TimeLimit", limitClock(job.TimeLimitS)), Item("TimeMin", timeMin(job, clockText)))
	r.Line(Item("SubmitTime", view.Stamp(job.SubmitMs, "Unknown")), Item("EligibleTime", view.Stamp(job.EligibleMs, "Unknown")))
	r.Line(Item("AccrueTime", view.Stamp(job.AccrueMs, "Unknown")))
	end := view.endText(job)
	if end == "N/A" || end == "NONE" {
		end = "Unknown"
	}
	r.Line(Item("StartTime", view.Stamp(startMS(job), "Unknown")), Item("EndTime", end),
		Item("Deadline", view.Stamp(job.GetSpec().GetDeadlineMs(), "N/A")))
	r.Line(Item("SuspendTime", view.Stamp(job.SuspendMs, "None")), Item("SecsPreSuspend", Digits(uint64(max(job.PreSuspendMs, 0)/1000))),
		"LastSchedEval=Unknown", Item("Scheduler", schedulerWord(job)))
	if job.PreemptEligibleMs != 0 {
		r.Line(Item("PreemptEligibleTime", view.Stamp(job.PreemptEligibleMs, "None")), Item("PreemptTime", view.Stamp(job.PreemptMs, "None")))
	}
}

// schedulerWord is which of Slurm's two schedulers would have started the job.
func schedulerWord(job *pb.Job) string {
	if job.FillsHole {
		return "Backfill"
	}
	return "Main"
}

// timeMin is the least time limit with which a job may start.
func timeMin(job *pb.Job, words func(uint32) string) string {
	if least := job.GetSpec().GetTimeMinS(); least != 0 {
		return words(least)
	}
	return "N/A"
}

func limitClock(seconds uint32) string {
	if seconds == 0 {
		return "Partition_Limit"
	}
	return clockText(seconds)
}

func jobPlace(r *Record, row *JobRow, details bool) {
	job, asked := row.job, row.job.GetSpec()
	r.Line(Item("Partition", job.Partition), Item("AllocNode:Sid", cmp.Or(asked.GetSubmitHost(), "N/A")+":0"))
	r.Line(Item("ReqNodeList", OrNull(asked.GetNodeList())), Item("ExcNodeList", OrNull(asked.GetExcludeNodes())))
	r.Line(Item("NodeList", OrNull(job.NodeList)))
	if job.ScheduledNodes != "" {
		r.Line(Item("SchedNodeList", job.ScheduledNodes))
	}
	if job.BatchHost != "" {
		r.Line(Item("BatchHost", job.BatchHost))
	}
	r.Line(Item("NumNodes", Digits(job.Nodes)), Item("NumCPUs", Digits(job.Cpus)), Item("NumTasks", Digits(taskCount(job))),
		Item("CPUs/Task", Digits(max(asked.GetCpusPerTask(), 1))), "ReqB:S:C:T=0:0:*:*")
	requested, allocated := row.view.tresText(&pb.Job{Spec: asked, Cpus: job.Cpus, Nodes: job.Nodes, Billing: job.Billing}), "(null)"
	if len(job.Allocation) > 0 {
		allocated = row.view.tresText(job)
	}
	r.Line(Item("ReqTRES", requested))
	r.Line(Item("AllocTRES", allocated))
	if !details {
		return
	}
	for _, node := range job.Allocation {
		r.Line(Item("  Nodes", node.Node), Item("CPU_IDs", cpuList(node.CpuIds)),
			Item("Mem", Digits(node.MemoryBytes>>20)), Item("GRES", allocatedGres(node)))
	}
}

// cpuList writes CPU numbers in ranges: "0-3,8".
func cpuList(cpus []uint32) string {
	ranges := make([]*pb.ArrayRange, 0, len(cpus))
	for _, cpu := range cpus {
		ranges = append(ranges, &pb.ArrayRange{First: cpu, Last: cpu, Step: 1})
	}
	return indexText(spec.NormalizeRanges(ranges))
}

// mountsText is --container-mounts.
func mountsText(asked *pb.JobSpec) string {
	texts := make([]string, len(asked.GetMounts()))
	for i, m := range asked.GetMounts() {
		if texts[i] = m.GetSource() + ":" + m.GetTarget(); m.GetReadOnly() {
			texts[i] += ":ro"
		}
	}
	return strings.Join(texts, ",")
}

func jobRequest(r *Record, row *JobRow) {
	asked := row.job.GetSpec()
	memory := Item("MinMemoryNode", row.memoryText())
	if asked.GetMemoryPerCpuBytes() > 0 {
		memory = Item("MinMemoryCPU", row.memoryText())
	}
	r.Line("Socks/Node=*", "NtasksPerN:B:S:C="+Digits(asked.GetTasksPerNode())+":0:*:*", "CoreSpec=*")
	r.Line(Item("MinCPUsNode", Digits(max(asked.GetCpusPerTask(), 1)*max(asked.GetTasksPerNode(), 1))), memory, Item("MinTmpDiskNode", row.tmpText()))
	r.Line(Item("Features", OrNull(asked.GetConstraint())), "DelayBoot=00:00:00")
	if names := reservationNames(asked); names != "" {
		r.Line(Item("Reservation", names))
	}
	r.Line(Item("OverSubscribe", overSubscribe(row.job)), Item("Contiguous", oneZero(asked.GetContiguous())), Item("Licenses", OrNull(asked.GetLicenses())), Item("LicensesAlloc", OrNull(allocatedLicenses(row.job))), Item("Network", networkWord(asked.GetNetwork())))
	r.Line(Item("Command", OrNull(asked.GetCommand())))
	r.Line(Item("WorkDir", asked.GetWorkDirectory()))
	if asked.GetComment() != "" {
		r.Line(Item("Comment", asked.GetComment()))
	}
	if asked.GetImage() != "" {
		r.Line(Item("Container", asked.GetImage()))
	}
	if mounts := mountsText(asked); mounts != "" {
		r.Line(Item("ContainerMounts", mounts))
	}
	for _, one := range asked.GetStaging() {
		word := "StageIn"
		if one.GetOut() {
			word = "StageOut"
		}
		r.Line(Item(word, spec.Staging{Source: one.GetSource(), Target: one.GetTarget(), Once: one.GetOnce()}.String()))
	}
	r.Line(Item("StdErr", standardFile(row, standardError)))
	r.Line(Item("StdIn", standardFile(row, standardInput)))
	r.Line(Item("StdOut", standardFile(row, standardOutput)))
	if text := gresText(asked, pb.GpuScope_GPU_SCOPE_NODE); text != "" {
		r.Line(Item("TresPerNode", text))
	}
	if text := gresText(asked, pb.GpuScope_GPU_SCOPE_JOB); text != "" {
		r.Line(Item("TresPerJob", text))
	}
	jobPlacement(r, asked)
}

// jobOwn is what Slurm does not say: why in a sentence, which run it is, and
// what it used.
func jobOwn(r *Record, row *JobRow) {
	job := row.job
	items := []string{Item("Epoch", Digits(job.Epoch)), Item("GPUs", gpuText(job))}
	if job.CancelledByUid != nil {
		items = append(items, Item("CancelledBy", Digits(job.GetCancelledByUid())))
	}
	if usage := job.Usage; usage != nil {
		items = append(items, Item("PeakMemory", row.view.memory(usage.PeakMemoryBytes)), Item("CPUTime", clockText(uint32(min(usage.CpuNs/uint64(1e9), 1<<31)))))
	}
	r.Line(items...)
	switch {
	case job.ParkBoundMs != 0:
		r.Line(Item("ParkBound", parkBound(job.ParkBoundMs)))
	case job.ParkUnbounded != "":
		r.Line(Item("ParkBound", parkBound(0)), Item("ParkBoundReason", job.ParkUnbounded))
	}
	jobCheckpoint(r, row)
	jobSaved(r, row)
	if job.ReasonDetail != "" {
		r.Line(Item("ReasonDetail", job.ReasonDetail))
	}
}
