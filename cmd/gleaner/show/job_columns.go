package show

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// JobTable is what can be shown of a job. Letters, names and headers are those
// of squeue(1); the last ones, without letters, are Gleaner's own.
var JobTable = format.NewTable(slices.Concat(
	identityFields(), stateFields(), timeFields(), sizeFields(), requestFields(), unusedFields(), ownFields(), savedFields()))

type jobField = format.Field[*JobRow]

// jobText makes a field of what a job says by itself.
func jobText(letter byte, header string, value func(*pb.Job) string, names ...string) jobField {
	return jobField{Letter: letter, Names: names, Header: header, Value: func(r *JobRow) string { return value(r.job) }}
}

// jobCount makes a field that sorts as a number.
func jobCount(letter byte, header string, value func(*pb.Job) uint64, names ...string) jobField {
	return jobField{Letter: letter, Names: names, Header: header,
		Value:   func(r *JobRow) string { return Digits(value(r.job)) },
		Compare: func(a, b *JobRow) int { return cmp.Compare(value(a.job), value(b.job)) }}
}

// jobMoment makes a field that sorts as a time; one that is not known is the last.
func jobMoment(letter byte, header, absent string, value func(*pb.Job) int64, names ...string) jobField {
	return jobField{Letter: letter, Names: names, Header: header,
		Value: func(r *JobRow) string { return r.view.Stamp(value(r.job), absent) },
		Compare: func(a, b *JobRow) int {
			return cmp.Or(-compareBools(value(a.job) != 0, value(b.job) != 0), cmp.Compare(value(a.job), value(b.job)))
		}}
}

// compareBools puts false first.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// jobConstant makes a field for something this scheduler has only one value of.
func jobConstant(letter byte, header, value string, names ...string) jobField {
	return jobField{Letter: letter, Names: names, Header: header, Value: func(*JobRow) string { return value }}
}

func identityFields() []jobField {
	return []jobField{
		jobText('a', "ACCOUNT", func(j *pb.Job) string { return OrNull(j.GetSpec().GetAccount()) }, "Account"),
		jobCount('A', "JOBID", func(j *pb.Job) uint64 { return uint64(j.GetId().GetJob()) }, "JobID"),
		{Letter: 'F', Names: []string{"ArrayJobID"}, Header: "ARRAY_JOB_ID",
			Value:   func(r *JobRow) string { return Digits(r.arrayJob()) },
			Compare: func(a, b *JobRow) int { return cmp.Compare(a.arrayJob(), b.arrayJob()) }},
		{Letter: 'i', Names: []string{"JobArrayID"}, Header: "JOBID", Value: (*JobRow).id, Compare: CompareIDs},
		{Letter: 'K', Names: []string{"ArrayTaskID"}, Header: "ARRAY_TASK_ID",
			Value:   func(r *JobRow) string { return cmp.Or(r.tasks(), "N/A") },
			Compare: func(a, b *JobRow) int { return cmp.Compare(a.firstTask(), b.firstTask()) }},
		jobText('j', "NAME", func(j *pb.Job) string { return j.GetSpec().GetName() }, "Name"),
		jobText('g', "GROUP", func(j *pb.Job) string { return j.GetOwner().GetGroup() }, "GroupName"),
		jobCount('G', "GROUP", func(j *pb.Job) uint64 { return uint64(j.GetOwner().GetGid()) }, "GroupID"),
		jobText('u', "USER", func(j *pb.Job) string { return j.GetOwner().GetUser() }, "UserName"),
		jobCount('U', "UID", func(j *pb.Job) uint64 { return uint64(j.GetOwner().GetUid()) }, "UserID"),
		jobText('P', "PARTITION", func(j *pb.Job) string { return j.Partition }, "Partition"),
		jobText('q', "QOS", func(j *pb.Job) string { return QosOf(j) }, "QOS"),
		jobText('k', "COMMENT", func(j *pb.Job) string { return OrNull(j.GetSpec().GetComment()) }, "Comment"),
		jobText('w', "WCKEY", func(j *pb.Job) string { return OrNull(j.GetSpec().GetWckey()) }, "WCKey"),
		jobText(0, "ALLOC_NODES", func(j *pb.Job) string { return OrNull(j.GetSpec().GetSubmitHost()) }, "AllocNodes"),
	}
}

func stateFields() []jobField {
	byState := func(a, b *JobRow) int { return cmp.Compare(stateRank(a.job), stateRank(b.job)) }
	byPriority := func(a, b *JobRow) int { return cmp.Compare(a.job.Priority, b.job.Priority) }
	return []jobField{
		{Letter: 't', Names: []string{"StateCompact"}, Header: "ST", Compare: byState,
			Value: func(r *JobRow) string { return stateCode(r.job) }},
		{Letter: 'T', Names: []string{"State"}, Header: "STATE", Compare: byState,
			Value: func(r *JobRow) string { return StateName(r.job) }},
		jobText('r', "REASON", reasonText, "Reason"),
		jobText('R', "NODELIST(REASON)", placeText, "ReasonList"),
		{Letter: 'N', Names: []string{"NodeList"}, Header: "NODELIST", Value: func(r *JobRow) string { return r.job.NodeList },
			Compare: func(a, b *JobRow) int {
				return cmp.Or(-compareBools(a.job.NodeList != "", b.job.NodeList != ""), cmp.Compare(a.job.NodeList, b.job.NodeList))
			}},
		jobText('B', "EXEC_HOST", func(j *pb.Job) string { return cmp.Or(j.BatchHost, "n/a") }, "BatchHost"),
		{Letter: 'p', Names: []string{"Priority"}, Header: "PRIORITY", Compare: byPriority,
			Value: func(r *JobRow) string { return priorityFraction(r.job) }},
		jobCount('Q', "PRIORITY", func(j *pb.Job) uint64 { return j.Priority }, "PriorityLong"),
		jobText(0, "EXIT_CODE", func(j *pb.Job) string { return Digits(j.ExitCode) }, "exit_code"),
		jobText('E', "DEPENDENCY", func(j *pb.Job) string { return OrNull(j.GetSpec().GetDependency()) }, "Dependency"),
		jobCount(0, "RESTART_COUNT", func(j *pb.Job) uint64 { return uint64(j.RestartCount) }, "RestartCnt"),
	}
}

func timeFields() []jobField {
	return []jobField{
		{Letter: 'M', Whole: true, Names: []string{"TimeUsed"}, Header: "TIME",
			Value:   func(r *JobRow) string { return secondsText(r.view.usedSeconds(r.job)) },
			Compare: func(a, b *JobRow) int { return cmp.Compare(a.view.usedSeconds(a.job), b.view.usedSeconds(b.job)) }},
		{Letter: 'l', Whole: true, Names: []string{"TimeLimit"}, Header: "TIME_LIMIT",
			Value:   func(r *JobRow) string { return limitText(r.job) },
			Compare: func(a, b *JobRow) int { return cmp.Compare(a.job.TimeLimitS, b.job.TimeLimitS) }},
		{Names: []string{"MinTime"}, Header: "MIN_TIME", Value: func(r *JobRow) string { return timeMin(r.job, spec.FormatTime) },
			Compare: func(a, b *JobRow) int {
				return cmp.Compare(a.job.GetSpec().GetTimeMinS(), b.job.GetSpec().GetTimeMinS())
			}},
		{Letter: 'L', Whole: true, Names: []string{"TimeLeft"}, Header: "TIME_LEFT", Value: (*JobRow).leftText,
			Compare: func(a, b *JobRow) int {
				return cmp.Compare(int64(a.job.TimeLimitS)-a.view.usedSeconds(a.job), int64(b.job.TimeLimitS)-b.view.usedSeconds(b.job))
			}},
		jobMoment('S', "START_TIME", "N/A", startMS, "StartTime"),
		{Letter: 'e', Names: []string{"EndTime"}, Header: "END_TIME", Value: func(r *JobRow) string { return r.view.endText(r.job) }},
		jobMoment('V', "SUBMIT_TIME", "N/A", func(j *pb.Job) int64 { return j.SubmitMs }, "SubmitTime"),
		jobMoment(0, "ELIGIBLE_TIME", "N/A", func(j *pb.Job) int64 { return j.EligibleMs }, "EligibleTime"),
		jobMoment(0, "PREEMPT_TIME", "N/A", func(j *pb.Job) int64 { return j.PreemptMs }, "PreemptTime"),
		jobMoment(0, "ACCRUE_TIME", "N/A", func(j *pb.Job) int64 { return j.AccrueMs }, "AccrueTime"),
		jobMoment(0, "DEADLINE", "N/A", func(j *pb.Job) int64 { return j.GetSpec().GetDeadlineMs() }, "Deadline"),
		{Names: []string{"PendingTime"}, Header: "PENDING_TIME", Value: func(r *JobRow) string {
			until := r.job.StartMs
			if Pending(r.job) {
				until = r.view.NowMS
			}
			return Digits(max(int((until-r.job.SubmitMs)/1000), 0))
		}},
	}
}

func sizeFields() []jobField {
	return []jobField{
		jobCount('C', "CPUS", func(j *pb.Job) uint64 { return uint64(j.Cpus) }, "NumCPUs"),
		jobCount('D', "NODES", func(j *pb.Job) uint64 { return uint64(j.Nodes) }, "NumNodes", "Nodes"),
		jobCount(0, "TASKS", func(j *pb.Job) uint64 { return uint64(taskCount(j)) }, "NumTasks"),
		jobCount('c', "MIN_CPUS", func(j *pb.Job) uint64 { return uint64(max(j.GetSpec().GetCpusPerTask(), 1)) }, "MinCpus"),
		jobCount(0, "CPUS_PER_TASK", func(j *pb.Job) uint64 { return uint64(max(j.GetSpec().GetCpusPerTask(), 1)) }, "cpus-per-task"),
		{Letter: 'm', Names: []string{"MinMemory"}, Header: "MIN_MEMORY", Value: (*JobRow).memoryText,
			Compare: func(a, b *JobRow) int { return cmp.Compare(a.memoryAsked(), b.memoryAsked()) }},
		{Letter: 'd', Names: []string{"MinTmpDisk"}, Header: "MIN_TMP_DISK", Value: (*JobRow).tmpText,
			Compare: func(a, b *JobRow) int {
				return cmp.Compare(a.job.GetSpec().GetTmpPerNodeBytes(), b.job.GetSpec().GetTmpPerNodeBytes())
			}},
		jobText('b', "TRES_PER_NODE", func(j *pb.Job) string {
			return cmp.Or(gresText(j.GetSpec(), pb.GpuScope_GPU_SCOPE_NODE), "N/A")
		}, "tres-per-node", "Gres"),
		jobText(0, "TRES_PER_JOB", func(j *pb.Job) string {
			return cmp.Or(gresText(j.GetSpec(), pb.GpuScope_GPU_SCOPE_JOB), "N/A")
		}, "tres-per-job"),
		jobText(0, "TRES_PER_TASK", func(j *pb.Job) string {
			return cmp.Or(gresText(j.GetSpec(), pb.GpuScope_GPU_SCOPE_TASK), "N/A")
		}, "tres-per-task"),
		jobText(0, "CPUS_PER_TRES", func(j *pb.Job) string { return cmp.Or(cpusPerTRES(j.GetSpec()), "N/A") }, "cpus-per-tres"),
		jobText(0, "MEM_PER_TRES", func(j *pb.Job) string { return cmp.Or(memoryPerTRES(j.GetSpec()), "N/A") }, "mem-per-tres"),
		jobCount(0, "REQUIRED_SWITCHES", func(j *pb.Job) uint64 { return uint64(j.GetSpec().GetSwitches()) }, "ReqSwitch"),
		jobText(0, "WAIT4SWITCH", func(j *pb.Job) string { return clockText(j.GetSpec().GetSwitchesWaitS()) }, "Wait4Switch"),
		{Names: []string{"tres-alloc", "tres"}, Header: "TRES_ALLOC", Value: func(r *JobRow) string { return r.view.tresText(r.job) }},
		jobCount(0, "MAX_NODES", func(j *pb.Job) uint64 { return uint64(j.GetSpec().GetMaxNodes()) }, "MaxNodes"),
		jobCount(0, "NTASKS_PER_NODE", func(j *pb.Job) uint64 { return uint64(j.GetSpec().GetTasksPerNode()) }, "NTPerNode"),
	}
}

func requestFields() []jobField {
	return []jobField{
		jobText('f', "FEATURES", func(j *pb.Job) string { return OrNull(j.GetSpec().GetConstraint()) }, "Feature"),
		jobText('h', "OVER_SUBSCRIBE", overSubscribe, "OverSubscribe"),
		jobText('W', "LICENSES", func(j *pb.Job) string { return OrNull(j.GetSpec().GetLicenses()) }, "Licenses"),
		jobText('n', "REQ_NODES", func(j *pb.Job) string { return j.GetSpec().GetNodeList() }, "ReqNodes"),
		jobText('x', "EXC_NODES", func(j *pb.Job) string { return j.GetSpec().GetExcludeNodes() }, "ExcNodes"),
		{Letter: 'y', Names: []string{"Nice"}, Header: "NICE",
			Value:   func(r *JobRow) string { return Digits(r.job.GetSpec().GetNice()) },
			Compare: func(a, b *JobRow) int { return cmp.Compare(a.job.GetSpec().GetNice(), b.job.GetSpec().GetNice()) }},
		jobText('o', "COMMAND", func(j *pb.Job) string { return OrNull(j.GetSpec().GetCommand()) }, "Command"),
		jobText('Z', "WORK_DIR", func(j *pb.Job) string { return OrNull(j.GetSpec().GetWorkDirectory()) }, "WorkDir"),
		jobText(0, "REQUEUE", func(j *pb.Job) string { return oneZero(j.GetSpec().GetRequeue()) }, "Requeue"),
		{Names: []string{"STDOUT"}, Header: "STDOUT", Value: func(r *JobRow) string { return standardFile(r, standardOutput) }},
		{Names: []string{"STDERR"}, Header: "STDERR", Value: func(r *JobRow) string { return standardFile(r, standardError) }},
		{Names: []string{"STDIN"}, Header: "STDIN", Value: func(r *JobRow) string { return standardFile(r, standardInput) }},
	}
}

// unusedFields are fields of squeue for things that no job has here; they
// print what squeue prints where nothing was asked for.
func unusedFields() []jobField {
	return []jobField{
		jobConstant('H', "SOCKETS_PER_NODE", "*", "Sockets"),
		jobConstant('I', "CORES_PER_SOCKET", "*", "Cores"),
		jobConstant('J', "THREADS_PER_CORE", "*", "Threads"),
		jobConstant('z', "S:C:T", "*:*:*", "SCT"),
		jobConstant('O', "CONTIGUOUS", "0", "Contiguous"),
		jobConstant('s', "SELECT_JOBINFO", "", "SelectJobInfo"),
		jobText('v', "RESERVATION", func(j *pb.Job) string { return OrNull(reservationNames(j.GetSpec())) }, "Reservation"),
		jobConstant('X', "CORE_SPEC", "N/A", "CoreSpec"),
		jobText('Y', "SCHEDNODES", func(j *pb.Job) string { return OrNull(j.ScheduledNodes) }, "SchedNodes"),
		jobConstant(0, "BATCH_FLAG", "1", "BatchFlag"),
	}
}

// ownFields are what Gleaner can say and Slurm cannot.
func ownFields() []jobField {
	return []jobField{
		jobText(0, "REASON_DETAIL", func(j *pb.Job) string { return j.ReasonDetail }, "ReasonDetail"),
		jobCount(0, "EPOCH", func(j *pb.Job) uint64 { return uint64(j.Epoch) }, "Epoch"),
		jobText(0, "GPUS", gpuText, "GPUs"),
		{Names: []string{"PeakMemory"}, Header: "PEAK_MEMORY", Value: func(r *JobRow) string {
			if r.job.Usage == nil {
				return "N/A"
			}
			return r.view.memory(r.job.Usage.PeakMemoryBytes)
		}},
	}
}

// stateRank orders states as squeue's "t" does: by the number of the base
// state, completing jobs after the others of theirs.
func stateRank(job *pb.Job) int {
	rank := int(job.State) * 4
	if job.Configuring {
		rank++
	}
	if job.Completing {
		rank += 2
	}
	return rank
}

// savedFields are the fields of gqueue about that.
func savedFields() []jobField {
	return []jobField{
		jobText(0, "CHECKPOINT", checkpointText, "Checkpoint"),
		jobMoment(0, "SAVED_TIME", "N/A", func(j *pb.Job) int64 {
			if images := j.GetSaved().GetImages(); len(images) > 0 {
				return images[0].SavedMs
			}
			return 0
		}, "SavedTime"),
	}
}
