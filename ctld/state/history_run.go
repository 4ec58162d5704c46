package state

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file makes of a job what history keeps of one run of it.

// maxHistoryText bounds a text of a job that history keeps: who wants to know why a job
// ended a year ago reads one sentence.
const maxHistoryText = 512

// pastRun is a run that is over now. It depends on the job and on the policy alone, so
// that every controller makes the same bytes of it.
func (s *State) pastRun(job *Job) []byte {
	run := &pb.PastRun{
		Job: s.pastJob(job), Requeued: job.End.Requeue,
		LostGpuMs: job.LostBefore().LostGPUMS, Preemptions: job.LostBefore().Count,
	}
	if job.Run != nil {
		run.RanMs = job.Run.ranMS(s.timeMS)
		run.Borrowed = s.borrowedBy(job)
		run.Steps = job.Run.steps()
	}
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(run)
	if err != nil {
		panic(fmt.Sprintf("ctld/state: the run of job %d cannot be kept: %v", job.ID, err))
	}
	return bytes
}

// pastJob is the job without what only matters while it is there, and without what only
// its user may read.
func (s *State) pastJob(job *Job) *pb.Job {
	message := &pb.Job{
		Id: jobID(job), ArrayJobId: job.Array, Spec: specMessage(job, JobDetail{}),
		Owner: &pb.Identity{Uid: job.Owner().UID, Gid: job.Owner().GID, User: job.Owner().User, Group: job.Owner().Group, UidDomain: job.Owner().UIDDomain},
		State: job.End.State, Priority: job.Priority(), Epoch: job.Epoch, RestartCount: job.Restarts,
		SubmitMs: job.SubmitMS, EligibleMs: job.EligibleMS, Partition: job.Spec.Partitions[0], TimeLimitS: job.TimeLimitS(),
	}
	if job.Array != 0 && !job.HasTask {
		message.WaitingTasks = &pb.ArraySpec{Ranges: ranges.Messages(job.Tasks), MaxRunning: job.Spec.MaxRunning}
	}
	message.Reason, message.ReasonDetail = job.ReasonWord(s.timeMS)
	if job.Run != nil {
		fillRun(message, job.Run)
		message.EndedSuspended = job.Run.Suspension != nil
	} else {
		least := job.Spec.shape.Request.Least()
		message.Nodes, message.Cpus = uint32(least.Nodes), uint32(min(least.CPUs, 1<<31))
	}
	fillEnd(message, job.End)
	message.EndMs = s.timeMS
	if job.End.Preempted != nil {
		message.PreemptMs = job.End.Preempted.AtMS
		message.State = pb.JobState_JOB_STATE_PREEMPTED
	}
	if saved := job.Saved; saved != nil {
		message.Saved = &pb.JobSaved{Saves: saved.Saves, StandingMs: saved.StandingMS, KeptGpuMs: saved.KeptGPUMS, UndoneMs: saved.UndoneMS}
	}
	strip(message)
	return message
}

// strip removes from a message what history does not keep.
func strip(message *pb.Job) {
	asked := message.Spec
	asked.Arguments, asked.ExportOption, asked.Umask, asked.Array = nil, "", 0, nil
	for _, text := range []*string{&asked.Comment, &asked.WorkDirectory, &asked.StandardOutput, &asked.StandardError, &asked.StandardInput, &asked.Command, &message.ReasonDetail} {
		*text = bounds.Clip(*text, maxHistoryText)
	}
	for _, node := range message.Allocation {
		node.CpuIds = nil
		for _, device := range node.Devices {
			device.Node, device.DeviceId = "", ""
		}
	}
}

// borrowedBy is what a run had on nodes of owners to whom the job does not belong.
func (s *State) borrowedBy(job *Job) []*pb.Borrowed {
	var all []*pb.Borrowed
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		owner, model := s.policy.OwnerOf(alloc.Node), ""
		if owner == "" || s.OwnersJob(job, alloc.Node) {
			continue
		}
		if len(alloc.Devices) > 0 {
			model = alloc.Devices[0].Model
		}
		at, found := slices.BinarySearchFunc(all, owner, func(b *pb.Borrowed, owner string) int {
			return cmp.Or(cmp.Compare(b.Owner, owner), cmp.Compare(b.Model, model))
		})
		if !found {
			all = slices.Insert(all, at, &pb.Borrowed{Owner: owner, Model: model})
		}
		all[at].Nodes++
		all[at].Cpus += uint32(len(alloc.CPUs))
		all[at].Gpus += uint32(len(alloc.Devices))
	}
	return all
}
