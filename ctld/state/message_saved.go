package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// fillSaved says how a job can be saved, and what has been.
func fillSaved(message *pb.Job, job *Job, overlay Overlay) {
	if job.Saved == nil && overlay.Grade == "" {
		return
	}
	out := &pb.JobSaved{Grade: overlay.Grade, GradeReason: overlay.GradeReason, IntervalS: overlay.IntervalS}
	message.Saved = out
	if job.Run != nil && job.Run.Restore != nil {
		out.RestoredFrom = savedImage(job.Run.Restore)
	}
	if saving := job.Saving(); saving != nil {
		out.Saving = &pb.SaveUnderWay{
			Number: saving.Number, Purpose: saving.Purpose.String(), To: saving.To, SinceMs: saving.SinceMS, DeadlineMs: saving.DeadlineMS,
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
	out.FailedNumber, out.Failed, out.FailedMs = saved.FailedNumber, saved.Failed, saved.FailedMS
}

func savedImage(image *Image) *pb.SavedImage {
	return &pb.SavedImage{
		Number: image.Number, Epoch: image.Epoch, Node: image.Node, Store: image.Store, Bytes: image.Bytes, WrittenBytes: image.Written,
		SavedMs: image.SavedMS, RanMs: image.RanMS, StandingMs: image.StandingMS, PackMs: image.PackMS, Digest: image.Digest[:],
	}
}
