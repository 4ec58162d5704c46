package api

import (
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// Bounds of one message of a list.
const (
	maxJobsPerMessage  = 500
	maxBytesPerMessage = 4 << 20 // of the large fields, before the last job
)

// ListJobs streams the matching jobs, in the order of their numbers, as they
// were at one moment.
func (s *Controller) ListJobs(request *pb.ListJobsRequest, stream pb.Controller_ListJobsServer) error {
	from, err := s.reader(stream.Context())
	if err != nil {
		return err
	}
	f, err := newFilter(request.GetFilter())
	if err != nil {
		return err
	}
	view := s.cluster.View()
	may := s.sightOf(from, view)
	matching, err := f.choose(may)
	if err != nil {
		return err
	}
	message, bytes := &pb.ListJobsResponse{}, 0
	if f.empty() && !may.hides("jobs") {
		counts := view.Counts()
		message.Total = uint32(counts.Waiting + counts.Active)
		if f.all {
			message.Total = uint32(counts.Jobs)
		}
	}
	for chosen := range matching {
		detail := detailFor(may, chosen.job, request)
		if (detail.Script || detail.Environment) && !may.owns(chosen.job) {
			noteRead(stream.Context(), chosen.job)
		}
		job := s.jobMessage(may, chosen, detail)
		message.Jobs = append(message.Jobs, job)
		bytes += weight(job)
		if len(message.Jobs) < maxJobsPerMessage && bytes < maxBytesPerMessage {
			continue
		}
		if err := stream.Send(message); err != nil {
			return err
		}
		message, bytes = &pb.ListJobsResponse{}, 0
	}
	if len(message.Jobs) == 0 {
		return nil
	}
	return stream.Send(message)
}

// weight is about the size of the large fields of a job. A user who submits
// jobs with long arguments must not make the list too long for a message.
func weight(job *pb.Job) int {
	asked := job.GetSpec()
	sum := len(asked.GetScript()) + len(asked.GetExportOption()) + len(asked.GetNodeList()) + len(asked.GetExcludeNodes()) +
		len(job.GetNodeList()) + len(job.GetReasonDetail()) + len(asked.GetWorkDirectory()) + len(asked.GetComment()) + len(asked.GetConstraint()) +
		len(asked.GetStandardOutput()) + len(asked.GetStandardError()) + len(asked.GetStandardInput()) + len(asked.GetCommand())
	for _, list := range [][]string{asked.GetEnvironment(), asked.GetArguments(), asked.GetPartitions()} {
		for _, entry := range list {
			sum += len(entry) + 4
		}
	}
	sum += 5*len(job.GetOwner().GetGroups()) + 16*(len(asked.GetArray().GetRanges())+len(job.GetWaitingTasks().GetRanges()))
	for _, node := range job.GetAllocation() {
		sum += 64 + 3*len(node.GetCpuIds())
		for _, device := range node.GetDevices() {
			sum += 16 + len(device.GetNode()) + len(device.GetDeviceId()) + len(device.GetModel()) + len(device.GetParentId())
		}
	}
	return sum
}

// detailFor says which large fields of a job the caller gets: those that were
// requested and that the caller may read.
func detailFor(may *sight, job *state.Job, request *pb.ListJobsRequest) state.JobDetail {
	return state.JobDetail{
		Script:      request.GetWithScript() && may.reads(job),
		Environment: request.GetWithEnvironment() && may.readsEnvironment(job),
	}
}

// jobMessage is a job as this client may see it, with why it waits.
func (s *Controller) jobMessage(may *sight, chosen selected, detail state.JobDetail) *pb.Job {
	var overlay state.Overlay
	if chosen.job.Phase == state.Waiting {
		var planned bool
		if overlay, planned = s.loops.Overlay(chosen.job.ID); !planned && chosen.job.Held == sched.NotHeld {
			overlay.Reason = sched.ReasonPriority.String()
		}
	}
	s.loops.OverlaySaved(chosen.job, &overlay)
	overlay = may.overlay(overlay)
	message := may.view.JobMessage(chosen.job, overlay, detail)
	if chosen.tasks != nil {
		message.WaitingTasks.Ranges = chosen.tasks
	}
	may.withhold(chosen.job, message)
	return message
}
