package state

import (
	"cmp"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/billing"
)

// This file turns records into the API's messages. frommessage.go does the
// opposite.

// Overlay is what the leader knows of a waiting job that is not in the state:
// never in the log, gone with the leader.
type Overlay struct {
	Reason           string // "" = what the state knows
	Detail           string
	NamesOthers      bool // Detail names other jobs, or what others use
	EstimatedStartMS int64
	ScheduledNodes   string // where it is planned to start then, a host list
	Priority         uint32 // 0 = not known, or held
	// For a running job: whether it can be saved, as its node says (see
	// pb.JobSaved), and how often it is.
	Checkpointable, CheckpointableReason string
	IntervalS                            uint32
	// Preparing is what keeps a job with nodes from beginning; "" = nothing that is known.
	Preparing string
	// MeanBetweenLossesS is how long it would run on its nodes, on average, until it loses
	// its run; 0 = nobody knows.
	MeanBetweenLossesS uint32
}

// JobDetail says what is wanted in addition.
type JobDetail struct {
	Script      bool
	Environment bool
}

// JobMessage is a job as clients see it.
func (t *tables) JobMessage(job *Job, overlay Overlay, detail JobDetail) *pb.Job {
	message := &pb.Job{
		Id:           jobID(job),
		ArrayJobId:   job.Array,
		Spec:         specMessage(job, detail),
		Owner:        ownerMessage(job.Owner()),
		State:        job.State(),
		Completing:   job.Completing(),
		Configuring:  job.Configuring(),
		SpecialExit:  job.SpecialExit,
		Priority:     job.Priority(),
		Epoch:        job.Epoch,
		RestartCount: job.Restarts,
		SubmitMs:     job.SubmitMS,
		Partition:    strings.Join(job.Spec.Partitions, ","),
		TimeLimitS:   job.TimeLimitS(),
	}
	message.Reason, message.ReasonDetail = job.ReasonWord(t.timeMS)
	t.fillTimes(message, job)
	if job.Array != 0 && !job.HasTask {
		message.WaitingTasks = &pb.ArraySpec{Ranges: ranges.Messages(job.Tasks), MaxRunning: job.Spec.MaxRunning}
	}
	if job.HoldsNodes() && !job.stages() {
		message.ReasonDetail = joinSentences(message.ReasonDetail, joinSentences(job.fillsText(), t.silence(job)))
		message.ReasonDetail = joinSentences(message.ReasonDetail, overlay.Preparing)
		message.ParkBoundMs, message.ParkUnbounded, _ = t.jobBound(job)
	}
	if job.Phase == Waiting {
		t.fillWaiting(message, job, overlay)
	}
	if job.Suspended() {
		if job.Run.Suspension.For != 0 {
			message.PreemptMs = job.Run.TurnMS
		}
		message.ReasonDetail = joinSentences(t.suspendedWord(job), message.ReasonDetail)
		if t.reclaimedWord(job) != "" {
			message.Reason = ReasonReclaimed
		}
	}
	if job.Run != nil && !job.stages() {
		fillRun(message, job.Run)
		message.EndedSuspended = job.Phase == Finished && job.Run.Suspension != nil
		message.PreemptEligibleMs = t.preemptEligibleMS(job)
	}
	if job.End != nil && job.End.Preempted != nil {
		message.PreemptMs = job.End.Preempted.AtMS
	}
	if job.End != nil && !job.End.Requeue {
		fillEnd(message, job.End)
	}
	fillSaved(message, job, overlay)
	t.fillStaged(message, job, overlay)
	return message
}

func (t *tables) fillWaiting(message *pb.Job, job *Job, overlay Overlay) {
	// The state knows more about holds and dependencies than the plan.
	if overlay.Reason != "" && message.Reason == "None" {
		message.Reason, message.ReasonDetail = overlay.Reason, joinSentences(overlay.Detail, job.Detail)
	}
	t.tellKept(message, job)
	t.tellTerms(message, job)
	t.tellCrossed(message, job)
	t.tellSlow(message, job)
	t.tellReserved(message, job)
	t.tellSoon(message, job)
	message.EstimatedStartMs = cmp.Or(overlay.EstimatedStartMS, message.EstimatedStartMs)
	message.ScheduledNodes = overlay.ScheduledNodes
	if overlay.Priority != 0 && job.Held == sched.NotHeld {
		message.Priority = uint64(overlay.Priority)
	}
	least := job.Spec.shape.Request.Least()
	message.Nodes, message.Cpus = uint32(least.Nodes), uint32(min(least.CPUs, math.MaxUint32))
	message.Billing = billedAtLeast(t.policy, job.Spec, least)
}

func fillRun(message *pb.Job, run *Run) {
	message.Partition = run.Partition
	if run.Priority != 0 {
		message.Priority = uint64(run.Priority)
	}
	message.Billing, message.FillsHole = run.Billing/billing.Scale, run.Fills
	message.StartMs = run.StartMS
	message.SuspendMs, message.PreSuspendMs = run.TurnMS, run.RanMS
	message.BatchHost = run.BatchHost()
	message.Allocation = allocationMessage(run)
	names := make([]string, len(run.Allocs))
	for i := range run.Allocs {
		names[i] = run.Allocs[i].Node
		message.Cpus += uint32(len(run.Allocs[i].CPUs))
	}
	message.Nodes = uint32(len(names))
	message.NodeList = spec.FormatHostList(names)
}

func fillEnd(message *pb.Job, end *End) {
	message.EndMs = end.EndMS
	message.ExitCode = end.ExitCode
	message.ExitSignal = end.ExitSignal
	message.Usage = &pb.Usage{PeakMemoryBytes: end.PeakMemoryBytes, CpuNs: end.CPUNS}
	if end.Cancelled {
		message.CancelledByUid = proto.Uint32(end.CancelledBy)
	}
}

// fillTimes fills in from when on it may start and has aged, as Slurm does: a
// job that depends on others, or is held, has no such times.
func (t *tables) fillTimes(message *pb.Job, job *Job) {
	message.Spec.KillOnInvalidDependency = killMessage(job.Spec)
	message.Spec.BeginMs, message.Spec.DeadlineMs = job.BeginMS, job.DeadlineMS
	if job.Phase == Waiting {
		message.Spec.Dependency = job.Dependencies.Text(t.timeMS, t.isArray)
	}
	from, is := job.eligible()
	if job.Phase != Waiting || is {
		message.EligibleMs = job.EligibleMS
		message.AccrueMs = job.EligibleMS - job.AgedMS
	}
	if is && from > t.timeMS {
		message.EstimatedStartMs, message.AccrueMs = from, 0
	}
}

func killMessage(spec *Spec) *bool {
	if !spec.KillOnInvalidDependency {
		return nil
	}
	return proto.Bool(true)
}

func jobID(job *Job) *pb.JobId {
	id := &pb.JobId{Job: job.ID}
	if job.HasTask {
		id.ArrayTask = proto.Uint32(job.Task)
	}
	return id
}

func allocationMessage(run *Run) []*pb.NodeAllocation {
	allocation := make([]*pb.NodeAllocation, len(run.Allocs))
	for i := range run.Allocs {
		alloc := &run.Allocs[i]
		devices := make([]*pb.AllocatedDevice, len(alloc.Devices))
		for d := range alloc.Devices {
			held := &alloc.Devices[d]
			devices[d] = &pb.AllocatedDevice{
				Node: alloc.Node, DeviceId: held.ID, Shares: held.Shares,
				ParentId: held.Parent, Model: held.Model, Index: held.Index,
			}
		}
		allocation[i] = &pb.NodeAllocation{
			Node: alloc.Node, CpuIds: alloc.CPUs, MemoryBytes: alloc.MemoryBytes, TmpBytes: alloc.TmpBytes,
			Devices: devices, Tasks: alloc.Tasks, Released: alloc.Released,
		}
	}
	return allocation
}

func ownerMessage(owner *Owner) *pb.Identity {
	return &pb.Identity{
		Uid: owner.UID, Gid: owner.GID, Groups: owner.Groups, User: owner.User, Group: owner.Group,
		Home: owner.Home, Shell: owner.Shell, UidDomain: owner.UIDDomain,
	}
}

func specMessage(job *Job, detail JobDetail) *pb.JobSpec {
	r, own := job.Spec, job.Own()
	message := &pb.JobSpec{
		Name: own.Name, Partitions: r.Partitions, Account: r.Account, Qos: r.QOS,
		Comment: own.Comment, Wckey: r.WCKey,
		Arguments: own.Arguments, WorkDirectory: own.WorkDirectory,
		StandardOutput: own.StandardOutput, StandardError: own.StandardError, StandardInput: own.StandardInput,
		OpenMode: r.OpenMode, ExportOption: r.ExportOption, SubmitHost: r.SubmitHost, Umask: r.Umask, Command: own.Command,
		MinNodes: r.MinNodes, MaxNodes: r.MaxNodes, Tasks: r.Tasks, TasksPerNode: r.TasksPerNode,
		CpusPerTask: r.CPUsPerTask, MemoryPerNodeBytes: r.MemoryPerNode, MemoryPerCpuBytes: r.MemoryPerCPU, TmpPerNodeBytes: r.TmpPerNode,
		TimeLimitS: r.TimeLimitS, TimeMinS: r.TimeMinS, NodeList: r.NodeList, ExcludeNodes: r.ExcludeNodes,
		Constraint: r.Constraint, Exclusive: r.Exclusive,
		Hold: r.Hold, Requeue: r.Requeue, Nice: r.Nice, Network: job.networkNow(), Licenses: licensesText(r.Licenses), Reservations: r.Reservations,
		MailTypes: r.MailTypes, MailUser: r.MailUser,
	}
	r.placementMessage(message)
	r.containerMessage(message)
	r.stagingMessage(message)
	r.checkpointMessage(message)
	for _, gpu := range r.GPUs {
		message.Gpus = append(message.Gpus, &pb.GpuRequest{
			Scope: gpu.Scope, Count: gpu.Count, Model: gpu.Model, SharesPerDevice: gpu.Shares,
		})
	}
	if r.IsArray() {
		message.Array = arraySpec(r)
	}
	if detail.Script {
		message.Script = job.Script.bytes()
	}
	if detail.Environment {
		message.Environment = splitEnvironment(job.Environment.bytes())
	}
	return message
}
