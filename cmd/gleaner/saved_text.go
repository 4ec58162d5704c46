package main

import (
	"cmp"
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file shows how a job can be saved, and what has been.

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

// checkpointText is one word on how a job stands: the grade, or what is going on.
func checkpointText(job *pb.Job) string {
	saved := job.GetSaved()
	switch {
	case saved.GetSaving() != nil:
		return "SAVING"
	case pending(job) && len(saved.GetImages()) > 0:
		return fmt.Sprintf("IMAGE:%d", saved.Images[0].Number)
	}
	return cmp.Or(saved.GetGrade(), "N/A")
}

// jobSaved adds to a job's record whether it can be saved, the save that is under
// way, its images, and from which one it goes on.
func jobSaved(r *record, row *jobRow) {
	saved, view := row.job.GetSaved(), row.view
	if saved == nil {
		return
	}
	grade := []string{item("CheckpointGrade", cmp.Or(saved.Grade, "N/A"))}
	if saved.GradeReason != "" {
		grade = append(grade, item("GradeReason", saved.GradeReason))
	}
	if saved.IntervalS > 0 && row.job.GetSpec().GetCheckpoint().GetIntervalAuto() {
		grade = append([]string{item("CheckpointEvery", clockText(saved.IntervalS))}, grade...)
	}
	r.line(grade...)
	if under := saved.Saving; under != nil {
		line := []string{item("Saving", digits(under.Number)), item("SavingFor", under.Purpose), item("SavingSince", view.stamp(under.SinceMs, "Unknown"))}
		if under.To != "" {
			line = append(line, item("SavingTo", under.To))
		}
		if under.ForJob != 0 {
			line = append(line, item("SavingForJob", digits(under.ForJob)))
		}
		r.line(line...)
	}
	for _, image := range saved.Images {
		place := image.Node
		if image.Store != "" {
			place += "/" + image.Store
		}
		r.line(item("Image", digits(image.Number)), item("SavedOn", place), item("SavedTime", view.stamp(image.SavedMs, "Unknown")),
			item("RanBefore", clockText(uint32(max(image.RanMs, 0)/1000))), item("Size", sizeText(image.Bytes)), item("StoodStill", secondsOf(uint64(image.StandingMs))))
	}
	if from := saved.RestoredFrom; from != nil {
		r.line(item("RestoredFrom", digits(from.Number)), item("RestoredFromNode", from.Node))
	}
	if saved.Saves > 0 {
		r.line(item("Saves", digits(saved.Saves)), item("StoodStillInAll", secondsOf(saved.StandingMs)), item("WorkKept", secondsText(saved.KeptGpuMs/1000)))
	}
	if saved.Failed != "" {
		r.line(item("NotSaved", digits(saved.FailedNumber)), item("NotSavedTime", view.stamp(saved.FailedMs, "Unknown")), item("NotSavedReason", saved.Failed))
	}
}

// jobSavedJSON is the same for --json.
type jobSavedJSON struct {
	Grade        string           `json:"grade,omitempty"`
	GradeReason  string           `json:"grade_reason,omitempty"`
	IntervalS    uint32           `json:"interval_s,omitempty"`
	Saving       *savingJSON      `json:"saving,omitempty"`
	Images       []savedImageJSON `json:"images"`
	RestoredFrom *savedImageJSON  `json:"restored_from,omitempty"`
	Saves        uint32           `json:"saves"`
	StandingMs   uint64           `json:"standing_ms"`
	KeptGPUMs    int64            `json:"kept_gpu_ms"`
	Failed       string           `json:"failed,omitempty"`
	FailedImage  uint32           `json:"failed_image,omitempty"`
	FailedMs     int64            `json:"failed_ms,omitempty"`
}

type savingJSON struct {
	Image   uint32 `json:"image"`
	Purpose string `json:"purpose"`
	To      string `json:"to,omitempty"`
	ForJob  uint32 `json:"for_job,omitempty"`
	SinceMs int64  `json:"since_ms"`
}

type savedImageJSON struct {
	Image        uint32 `json:"image"`
	Epoch        uint32 `json:"epoch"`
	Node         string `json:"node"`
	Store        string `json:"store,omitempty"`
	Bytes        uint64 `json:"bytes"`
	WrittenBytes uint64 `json:"written_bytes"`
	SavedMs      int64  `json:"saved_ms"`
	RanMs        int64  `json:"ran_ms"`
	StandingMs   uint32 `json:"standing_ms"`
	PackMs       uint32 `json:"pack_ms"`
	Digest       string `json:"digest"`
	// Parts are those of a job on several nodes.
	Parts []savedPartJSON `json:"parts,omitempty"`
}

type savedPartJSON struct {
	Node         string `json:"node"`
	Store        string `json:"store,omitempty"`
	Bytes        uint64 `json:"bytes"`
	WrittenBytes uint64 `json:"written_bytes"`
	Digest       string `json:"digest"`
}

func imageJSON(image *pb.SavedImage) savedImageJSON {
	out := savedImageJSON{
		Image: image.Number, Epoch: image.Epoch, Node: image.Node, Store: image.Store, Bytes: image.Bytes, WrittenBytes: image.WrittenBytes,
		SavedMs: image.SavedMs, RanMs: image.RanMs, StandingMs: image.StandingMs, PackMs: image.PackMs, Digest: fmt.Sprintf("%x", image.Digest),
	}
	for _, part := range image.Parts {
		out.Parts = append(out.Parts, savedPartJSON{part.Node, part.Store, part.Bytes, part.WrittenBytes, fmt.Sprintf("%x", part.Digest)})
	}
	return out
}

// savedOf is what is known of how a job was saved; nil for nothing.
func savedOf(job *pb.Job) *jobSavedJSON {
	saved := job.GetSaved()
	if saved == nil {
		return nil
	}
	out := &jobSavedJSON{
		Grade: saved.Grade, GradeReason: saved.GradeReason, IntervalS: saved.IntervalS, Images: []savedImageJSON{}, Saves: saved.Saves,
		StandingMs: saved.StandingMs, KeptGPUMs: saved.KeptGpuMs, Failed: saved.Failed, FailedImage: saved.FailedNumber, FailedMs: saved.FailedMs,
	}
	for _, image := range saved.Images {
		out.Images = append(out.Images, imageJSON(image))
	}
	if from := saved.RestoredFrom; from != nil {
		restored := imageJSON(from)
		out.RestoredFrom = &restored
	}
	if under := saved.Saving; under != nil {
		out.Saving = &savingJSON{Image: under.Number, Purpose: under.Purpose, To: under.To, ForJob: under.ForJob, SinceMs: under.SinceMs}
	}
	return out
}
