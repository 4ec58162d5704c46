package main

import (
	"bufio"
	"cmp"
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func showJob(c *controlRun, id string) error {
	choice := &jobChoice{filter: &pb.JobFilter{AllStates: true}}
	if id != "" {
		targets, err := spec.ParseJobTargets(id)
		if err != nil {
			return c.inv.Fail("%w", err)
		}
		choice.aim(targets)
	}
	out := bufio.NewWriterSize(c.inv.Stdout, 64<<10)
	run := &queueRun{inv: c.inv, client: c.client, choice: choice, json: c.json}
	var stream *jsonStream
	if c.json != jsonNone {
		stream = newJSONStream(out, "jobs", c.json)
	}
	found := 0
	show := func(row *jobRow) error {
		found++
		if stream != nil {
			return stream.add(c.json.job(row))
		}
		jobRecordOf(row, c.details).write(out, c.oneLine)
		return nil
	}
	err := list(c.inv.Context, c.client, c.client.ListJobs, &pb.ListJobsRequest{Filter: choice.filter}, shown, func(answer *pb.ListJobsResponse) error {
		for _, job := range answer.Jobs {
			if err := run.rows(job, c.view, show); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	switch {
	case err != nil:
		return loadError(c.inv, loadJobs, err)
	case found == 0 && id != "":
		fmt.Fprintf(c.inv.Stderr, "%s: Invalid job id specified\n", loadJobs)
		return option.Exit(1)
	case stream != nil:
		if err := stream.end(c.inv); err != nil {
			return err
		}
	case found == 0:
		fmt.Fprintln(out, "No jobs in the system")
	}
	return out.Flush()
}

// jobRecordOf is a job as "scontrol show job" prints it, and after that what
// only Gleaner knows.
func jobRecordOf(row *jobRow, details bool) *record {
	r := &record{}
	jobIdentity(r, row)
	jobTimes(r, row)
	jobPlace(r, row, details)
	jobRequest(r, row)
	jobOwn(r, row)
	return r
}

func jobIdentity(r *record, row *jobRow) {
	job, asked, owner := row.job, row.job.GetSpec(), row.job.GetOwner()
	first := []string{item("JobId", digits(job.GetId().GetJob()))}
	if tasks := row.tasks(); tasks != "" {
		first = append(first, item("ArrayJobId", digits(row.arrayJob())), item("ArrayTaskId", tasks))
		if throttle := job.GetWaitingTasks().GetMaxRunning(); throttle > 0 {
			first = append(first, item("ArrayTaskThrottle", digits(throttle)))
		}
	}
	r.line(append(first, item("JobName", asked.GetName()))...)
	r.line(item("UserId", fmt.Sprintf("%s(%d)", owner.GetUser(), owner.GetUid())),
		item("GroupId", fmt.Sprintf("%s(%d)", owner.GetGroup(), owner.GetGid())), "MCS_label=N/A")
	r.line(item("Priority", digits(job.Priority)), item("Nice", digits(asked.GetNice())),
		item("Account", orNull(asked.GetAccount())), item("QOS", qosOf(job)))
	r.line(item("JobState", stateName(job)), item("Reason", reasonText(job)), item("Dependency", orNull(asked.GetDependency())))
	r.line(item("Requeue", oneZero(asked.GetRequeue())), item("Restarts", digits(job.RestartCount)), "BatchFlag=1", "Reboot=0", item("ExitCode", exitText(job)))
}

func jobTimes(r *record, row *jobRow) {
	job, view := row.job, row.view
	used := view.usedSeconds(job)
	r.line(item("RunTime", clockText(uint32(max(used, 0)))), item("TimeLimit", limitClock(job.TimeLimitS)), "TimeMin=N/A")
	r.line(item("SubmitTime", view.stamp(job.SubmitMs, "Unknown")), item("EligibleTime", view.stamp(job.EligibleMs, "Unknown")))
	r.line(item("AccrueTime", view.stamp(job.AccrueMs, "Unknown")))
	end := view.endText(job)
	if end == "N/A" || end == "NONE" {
		end = "Unknown"
	}
	r.line(item("StartTime", view.stamp(startMS(job), "Unknown")), item("EndTime", end),
		item("Deadline", view.stamp(job.GetSpec().GetDeadlineMs(), "N/A")))
	if job.SuspendMs != 0 {
		r.line(item("SuspendTime", view.stamp(job.SuspendMs, "None")), item("SecsPreSuspend", digits(uint64(max(job.PreSuspendMs, 0)/1000))))
	}
	if job.PreemptEligibleMs != 0 {
		r.line(item("PreemptEligibleTime", view.stamp(job.PreemptEligibleMs, "None")), item("PreemptTime", view.stamp(job.PreemptMs, "None")))
	}
}

func limitClock(seconds uint32) string {
	if seconds == 0 {
		return "Partition_Limit"
	}
	return clockText(seconds)
}

func jobPlace(r *record, row *jobRow, details bool) {
	job, asked := row.job, row.job.GetSpec()
	r.line(item("Partition", job.Partition), item("AllocNode:Sid", cmp.Or(asked.GetSubmitHost(), "N/A")+":0"))
	r.line(item("ReqNodeList", orNull(asked.GetNodeList())), item("ExcNodeList", orNull(asked.GetExcludeNodes())))
	r.line(item("NodeList", orNull(job.NodeList)))
	if job.BatchHost != "" {
		r.line(item("BatchHost", job.BatchHost))
	}
	r.line(item("NumNodes", digits(job.Nodes)), item("NumCPUs", digits(job.Cpus)), item("NumTasks", digits(taskCount(job))),
		item("CPUs/Task", digits(max(asked.GetCpusPerTask(), 1))), "ReqB:S:C:T=0:0:*:*")
	r.line(item("TRES", row.view.tresText(job)))
	if !details {
		return
	}
	for _, node := range job.Allocation {
		r.line(item("  Nodes", node.Node), item("CPU_IDs", cpuList(node.CpuIds)),
			item("Mem", digits(node.MemoryBytes>>20)), item("GRES", allocatedGres(node)))
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

func jobRequest(r *record, row *jobRow) {
	asked := row.job.GetSpec()
	memory := item("MinMemoryNode", row.memoryText())
	if asked.GetMemoryPerCpuBytes() > 0 {
		memory = item("MinMemoryCPU", row.memoryText())
	}
	r.line(item("MinCPUsNode", digits(max(asked.GetCpusPerTask(), 1)*max(asked.GetTasksPerNode(), 1))), memory, "MinTmpDiskNode=0")
	r.line(item("Features", orNull(asked.GetConstraint())), "DelayBoot=00:00:00")
	r.line(item("OverSubscribe", overSubscribe(row.job)), item("Contiguous", oneZero(asked.GetContiguous())), item("Licenses", orNull(asked.GetLicenses())), "Network=(null)")
	r.line(item("Command", orNull(asked.GetCommand())))
	r.line(item("WorkDir", asked.GetWorkDirectory()))
	if asked.GetComment() != "" {
		r.line(item("Comment", asked.GetComment()))
	}
	r.line(item("StdErr", standardFile(row, standardError)))
	r.line(item("StdIn", standardFile(row, standardInput)))
	r.line(item("StdOut", standardFile(row, standardOutput)))
	if text := gresText(asked, pb.GpuScope_GPU_SCOPE_NODE); text != "" {
		r.line(item("TresPerNode", text))
	}
	if text := gresText(asked, pb.GpuScope_GPU_SCOPE_JOB); text != "" {
		r.line(item("TresPerJob", text))
	}
	jobPlacement(r, asked)
}

// jobOwn is what Slurm does not say: why in a sentence, which run it is, and
// what it used.
func jobOwn(r *record, row *jobRow) {
	job := row.job
	items := []string{item("Epoch", digits(job.Epoch)), item("GPUs", gpuText(job))}
	if job.CancelledByUid != nil {
		items = append(items, item("CancelledBy", digits(job.GetCancelledByUid())))
	}
	if usage := job.Usage; usage != nil {
		items = append(items, item("PeakMemory", row.view.memory(usage.PeakMemoryBytes)), item("CPUTime", clockText(uint32(min(usage.CpuNs/uint64(1e9), 1<<31)))))
	}
	r.line(items...)
	jobCheckpoint(r, row)
	jobSaved(r, row)
	if job.ReasonDetail != "" {
		r.line(item("ReasonDetail", job.ReasonDetail))
	}
}
