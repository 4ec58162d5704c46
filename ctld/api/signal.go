package api

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// While a job moves, its processes are frozen on one node and are not yet on the other:
// nobody can signal them. A signal that came at such a time is sent to the run that goes on.
const (
	signalAgainEvery = 200 * time.Millisecond
	signalAgainFor   = 30 * time.Second
)

// signalJob sends a signal to a job, wherever it runs. It returns what an answer says of it,
// "" = it was delivered.
func (s *Controller) signalJob(ctx context.Context, job *state.Job, request *pb.CancelRequest) string {
	ctx, cancel := context.WithTimeout(ctx, signalAgainFor)
	defer cancel()
	first := job.Epoch
	for {
		delivered, complaint := s.deliver(ctx, job, request)
		if complaint == "" || delivered > 0 { // none gets it twice
			return complaint
		}
		now, known := s.cluster.View().Job(job.ID)
		if !known || !moves(now, first) {
			return complaint
		}
		job = now
		select {
		case <-ctx.Done():
			return complaint
		case <-time.After(signalAgainEvery):
		}
	}
}

// moves says whether a job moves, or has moved since its run had that epoch.
func moves(job *state.Job, epoch uint32) bool {
	return job.Phase == state.Running && (job.Moving() != nil || job.Epoch != epoch)
}

// deliver sends the signal to the nodes concerned. It returns how many took it, and the first
// error.
func (s *Controller) deliver(ctx context.Context, job *state.Job, request *pb.CancelRequest) (delivered int, complaint string) {
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		if alloc.Released || request.GetBatch() && alloc.Node != job.Run.BatchHost() {
			continue
		}
		err := s.loops.Sessions().Signal(ctx, alloc.Node, &pb.SignalAlloc{
			Alloc:  &pb.AllocId{Job: job.ID, Epoch: job.Epoch},
			Signal: request.GetSignal(), Batch: request.GetBatch(), Full: request.GetFull(),
		})
		switch {
		case err == nil:
			delivered++
		case complaint == "":
			complaint = "the signal was not delivered: " + err.Error()
		}
	}
	return delivered, complaint
}
