package state

import (
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// fillSaved says how a job can be saved, and what its saves and images are.
func fillSaved(message *pb.Job, job *Job, overlay Overlay) {
	if job.Saved == nil && overlay.Checkpointable == "" {
		return
	}
	out := &pb.JobSaved{Checkpointable: overlay.Checkpointable, CheckpointableReason: overlay.CheckpointableReason, IntervalS: overlay.IntervalS, MeanBetweenLossesS: overlay.MeanBetweenLossesS}
	message.Saved = out
	if job.Run != nil && job.Run.Restore != nil {
		out.RestoredFrom = savedImage(job.Run.Restore)
	}
	if saving := job.Saving(); saving != nil {
		out.Saving = &pb.SaveUnderWay{
			Number: saving.Number, Purpose: saving.Purpose.String(), To: words.FormatHostList(saving.To), SinceMs: saving.SinceMS, DeadlineMs: saving.DeadlineMS,
		}
		if saving.Order != nil {
			out.Saving.ForJob = saving.Order.For
		}
	}
	saved := job.Saved
	if saved == nil {
		return
	}
	for i := range saved.Images {
		out.Images = append(out.Images, savedImage(&saved.Images[i]))
	}
	out.Number, out.Saves, out.StandingMs, out.KeptGpuMs = saved.Number, saved.Saves, saved.StandingMS, saved.KeptGPUMS
	out.UndoneMs, out.Undone = saved.UndoneMS, saved.Undone
	out.FailedNumber, out.Failed, out.FailedMs = saved.FailedNumber, saved.Failed, saved.FailedMS
	fillMove(out, job)
}

// fillMove reports whether and where a job moves, or why it did not.
func fillMove(out *pb.JobSaved, job *Job) {
	if move := job.Moving(); move != nil {
		out.Moving = &pb.MoveUnderWay{
			Number: move.Number, To: words.FormatHostList(job.Successor().Run.nodes()), Frozen: move.Made,
			SinceMs: move.SinceMS, DeadlineMs: move.DeadlineMS, Tries: triesMessage(move.Tries),
		}
	}
	if failed := job.Saved.MoveFailed; failed != nil {
		out.MoveFailed = &pb.MoveFailure{Number: failed.Number, Reason: failed.Reason, AtMs: failed.AtMS, Tries: triesMessage(failed.Tries)}
	}
	if !job.HoldsNodes() {
		return
	}
	var leaves []string
	for i := range job.Run.Beside {
		b := &job.Run.Beside[i]
		for k := range b.Run.Allocs {
			if b.Over && !b.Run.Allocs[k].Released {
				leaves = append(leaves, b.Run.Allocs[k].Node)
			}
		}
	}
	slices.Sort(leaves)
	out.Leaves = words.FormatHostList(leaves)
}

func triesMessage(tries []MoveTry) []*pb.MoveTry {
	out := make([]*pb.MoveTry, len(tries))
	for i := range tries {
		out[i] = &pb.MoveTry{Nodes: tries[i].list(), Node: tries[i].Node, Reason: tries[i].Reason}
	}
	return out
}

func savedImage(image *Image) *pb.SavedImage {
	first := &image.Allocs[0]
	message := &pb.SavedImage{
		Number: image.Number, Epoch: image.Epoch, Node: words.FormatHostList(image.Nodes()), Store: first.Store,
		SavedMs: image.SavedMS, RanMs: image.RanMS, StandingMs: image.StandingMS, PackMs: image.PackMS, Digest: first.Digest[:],
		Parent: image.Parent, Copies: words.FormatHostList(image.copies()),
	}
	for i := range image.Allocs {
		alloc := &image.Allocs[i]
		message.Bytes += alloc.Bytes
		message.WrittenBytes += alloc.Written
		if alloc.Store != first.Store {
			message.Store = ""
		}
		if len(image.Allocs) > 1 {
			message.Allocs = append(message.Allocs, &pb.SavedAlloc{
				Node: alloc.Node, Store: alloc.Store, Bytes: alloc.Bytes, WrittenBytes: alloc.Written, Digest: alloc.Digest[:],
			})
		}
	}
	return message
}
