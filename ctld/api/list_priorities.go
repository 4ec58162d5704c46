package api

import (
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/priority"
)

// ListPriorities streams the factors of the priorities of the waiting jobs that
// are eligible, as a pass would compute them now.
func (s *Controller) ListPriorities(request *pb.ListPrioritiesRequest, stream pb.Controller_ListPrioritiesServer) error {
	from, err := s.reader(stream.Context())
	if err != nil {
		return err
	}
	f, err := newFilter(&pb.JobFilter{Ids: request.GetIds(), Users: request.GetUsers(), Uids: request.GetUids()})
	if err != nil {
		return err
	}
	view := s.cluster.View()
	may := s.sightOf(from, view)
	chosen, err := f.choose(may)
	if err != nil {
		return err
	}
	wanted := map[uint32]bool{}
	if !f.empty() {
		for one := range chosen {
			wanted[one.job.ID] = true
		}
	}
	partitions := setOf(request.GetPartitions())
	snapshot := view.SchedSnapshot(time.Now().UnixMilli())
	message := &pb.ListPrioritiesResponse{}
	for factors := range sched.PriorityFactors(snapshot) {
		id := uint32(snapshot.Waiting[factors.Job].ID)
		job, known := view.Job(id)
		if !known || !may.sees(job) || !f.empty() && !wanted[id] || len(partitions) > 0 && !partitions[partitionName(&snapshot, &factors)] {
			continue
		}
		message.Jobs = append(message.Jobs, jobPriority(&snapshot, job, &factors))
		if len(message.Jobs) == maxJobsPerMessage {
			if err := stream.Send(message); err != nil {
				return err
			}
			message = &pb.ListPrioritiesResponse{}
		}
	}
	if len(message.Jobs) == 0 {
		return nil
	}
	return stream.Send(message)
}

func partitionName(s *sched.Snapshot, f *sched.Factors) string {
	if f.Partition < 0 {
		return ""
	}
	return s.Partitions[f.Partition].Name
}

// jobPriority is one line of gprio.
func jobPriority(s *sched.Snapshot, job *state.Job, f *sched.Factors) *pb.JobPriority {
	w := &s.Priority
	message := &pb.JobPriority{
		Id: &pb.JobId{Job: job.ID}, Partition: partitionName(s, f), User: job.Owner().User, Uid: job.Owner().UID,
		Account: job.Spec.Account, Qos: job.Spec.QOS, Priority: f.Priority, Site: f.Site, Nice: f.Nice,
		Age: factor(f.Age, w.WeightAge), Association: factor(f.Association, w.WeightAssociation), FairShare: factor(f.FairShare, w.WeightFairShare),
		JobSize: factor(f.JobSize, w.WeightJobSize), PartitionFactor: factor(f.Weighs, w.WeightPartition), QosFactor: factor(f.QOS, w.WeightQOS),
	}
	if job.HasTask {
		message.Id.ArrayTask = &job.Task
	}
	for i := range f.TRES {
		if w.WeightTRES[i] == 0 {
			continue
		}
		if message.Tres == nil {
			message.Tres = map[string]*pb.PriorityFactor{}
		}
		message.Tres[s.TRES[i]] = factor(f.TRES[i], w.WeightTRES[i])
	}
	return message
}

func factor(f priority.Fraction, weight uint32) *pb.PriorityFactor {
	return &pb.PriorityFactor{Normalized: f.Float(), Weighted: f.Times(weight).Float()}
}
