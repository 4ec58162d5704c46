package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
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
	out.FailedNumber, out.Failed, out.FailedMs = saved.FailedNumber, saved.Failed, saved.FailedMS
}

func savedImage(image *Image) *pb.SavedImage {
	first := &image.Parts[0]
	message := &pb.SavedImage{
		Number: image.Number, Epoch: image.Epoch, Node: words.FormatHostList(image.Nodes()), Store: first.Store,
		SavedMs: image.SavedMS, RanMs: image.RanMS, StandingMs: image.StandingMS, PackMs: image.PackMS, Digest: first.Digest[:],
	}
	for i := range image.Parts {
		part := &image.Parts[i]
		message.Bytes += part.Bytes
		message.WrittenBytes += part.Written
		if part.Store != first.Store {
			message.Store = ""
		}
		if len(image.Parts) > 1 {
			message.Parts = append(message.Parts, &pb.SavedPart{
				Node: part.Node, Store: part.Store, Bytes: part.Bytes, WrittenBytes: part.Written, Digest: part.Digest[:],
			})
		}
	}
	return message
}
