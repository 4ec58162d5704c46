package show

import (
	"cmp"
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file shows how a job can be saved, and what has been.

// checkpointText is one word on a job's checkpoints: the grade, or what is
// going on.
func checkpointText(job *pb.Job) string {
	saved := job.GetSaved()
	switch {
	case saved.GetSaving() != nil:
		return "SAVING"
	case Pending(job) && len(saved.GetImages()) > 0:
		return fmt.Sprintf("IMAGE:%d", saved.Images[0].Number)
	}
	return cmp.Or(saved.GetCheckpointable(), "N/A")
}

// jobSaved adds to a job's record whether it can be saved, the save that is under
// way, its images, and from which one it continues.
func jobSaved(r *Record, row *JobRow) {
	saved, view := row.job.GetSaved(), row.view
	if saved == nil {
		return
	}
	checkpointable := []string{Item("Checkpointable", cmp.Or(saved.Checkpointable, "N/A"))}
	if saved.CheckpointableReason != "" {
		checkpointable = append(checkpointable, Item("CheckpointableReason", saved.CheckpointableReason))
	}
	if saved.IntervalS > 0 && row.job.GetSpec().GetCheckpoint().GetIntervalAuto() {
		every := []string{Item("CheckpointEvery", clockText(saved.IntervalS))}
		if saved.MeanBetweenLossesS > 0 {
			every = append(every, Item("MeanTimeToLoss", clockText(saved.MeanBetweenLossesS)))
		}
		checkpointable = append(every, checkpointable...)
	}
	r.Line(checkpointable...)
	if under := saved.Saving; under != nil {
		line := []string{Item("Saving", Digits(under.Number)), Item("SavingFor", under.Purpose), Item("SavingSince", view.Stamp(under.SinceMs, "Unknown"))}
		if under.To != "" {
			line = append(line, Item("SavingTo", under.To))
		}
		if under.ForJob != 0 {
			line = append(line, Item("SavingForJob", Digits(under.ForJob)))
		}
		r.Line(line...)
	}
	for _, image := range saved.Images {
		place := image.Node
		if image.Store != "" {
			place += "/" + image.Store
		}
		where := []string{Item("Image", Digits(image.Number)), Item("SavedOn", place)}
		if image.Copies != "" {
			where = append(where, Item("CopiedTo", image.Copies))
		}
		r.Line(append(where, Item("SavedTime", view.Stamp(image.SavedMs, "Unknown")),
			Item("RanBefore", clockText(uint32(max(image.RanMs, 0)/1000))), Item("Size", SizeText(image.Bytes)), Item("StoodStill", SecondsOf(uint64(image.StandingMs))), Item("ParentImage", parentText(image.Parent)))...)
	}
	if from := saved.RestoredFrom; from != nil {
		r.Line(Item("RestoredFrom", Digits(from.Number)), Item("RestoredFromNode", from.Node))
	}
	if saved.Saves > 0 {
		r.Line(Item("Saves", Digits(saved.Saves)), Item("StoodStillInAll", SecondsOf(saved.StandingMs)), Item("WorkKept", secondsText(saved.KeptGpuMs/1000)))
	}
	if saved.Undone != "" {
		r.Line(Item("WorkUndone", secondsText(saved.UndoneMs/1000)), Item("UndoneReason", saved.Undone))
	}
	if saved.Failed != "" {
		r.Line(Item("NotSaved", Digits(saved.FailedNumber)), Item("NotSavedTime", view.Stamp(saved.FailedMs, "Unknown")), Item("NotSavedReason", saved.Failed))
	}
	jobMoved(r, saved, view)
}

// parentText is the image from which the run that made another had come.
func parentText(number uint32) string {
	if number == 0 {
		return "(null)"
	}
	return Digits(number)
}

// jobSavedJSON is the same for --json.
type jobSavedJSON struct {
	Checkpointable       string           `json:"grade,omitempty"`
	CheckpointableReason string           `json:"checkpointable_reason,omitempty"`
	IntervalS            uint32           `json:"interval_s,omitempty"`
	MeanBetweenLossesS   uint32           `json:"mean_between_losses_s,omitempty"`
	Saving               *savingJSON      `json:"saving,omitempty"`
	Images               []savedImageJSON `json:"images"`
	RestoredFrom         *savedImageJSON  `json:"restored_from,omitempty"`
	Saves                uint32           `json:"saves"`
	StandingMs           uint64           `json:"standing_ms"`
	KeptGPUMs            int64            `json:"kept_gpu_ms"`
	UndoneMs             int64            `json:"undone_ms"`
	Undone               string           `json:"undone,omitempty"`
	Failed               string           `json:"failed,omitempty"`
	FailedImage          uint32           `json:"failed_image,omitempty"`
	FailedMs             int64            `json:"failed_ms,omitempty"`
	Moving               *movingJSON      `json:"moving,omitempty"`
	MoveFailed           *moveFailedJSON  `json:"move_failed,omitempty"`
	Leaves               string           `json:"leaves,omitempty"`
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
	Parent       uint32 `json:"parent"` // 0 = the script's start
	// Allocs are those of a job on several nodes.
	Allocs []savedAllocJSON `json:"allocs,omitempty"`
}

type savedAllocJSON struct {
	Node         string `json:"node"`
	Store        string `json:"store,omitempty"`
	Bytes        uint64 `json:"bytes"`
	WrittenBytes uint64 `json:"written_bytes"`
	Digest       string `json:"digest"`
}

func imageJSON(image *pb.SavedImage) savedImageJSON {
	out := savedImageJSON{
		Image: image.Number, Epoch: image.Epoch, Node: image.Node, Store: image.Store, Bytes: image.Bytes, WrittenBytes: image.WrittenBytes,
		SavedMs: image.SavedMs, RanMs: image.RanMs, StandingMs: image.StandingMs, PackMs: image.PackMs, Digest: fmt.Sprintf("%x", image.Digest), Parent: image.Parent,
	}
	for _, alloc := range image.Allocs {
		out.Allocs = append(out.Allocs, savedAllocJSON{alloc.Node, alloc.Store, alloc.Bytes, alloc.WrittenBytes, fmt.Sprintf("%x", alloc.Digest)})
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
		Checkpointable: saved.Checkpointable, CheckpointableReason: saved.CheckpointableReason, IntervalS: saved.IntervalS, MeanBetweenLossesS: saved.MeanBetweenLossesS, Images: []savedImageJSON{}, Saves: saved.Saves,
		StandingMs: saved.StandingMs, KeptGPUMs: saved.KeptGpuMs, UndoneMs: saved.UndoneMs, Undone: saved.Undone, Failed: saved.Failed, FailedImage: saved.FailedNumber, FailedMs: saved.FailedMs,
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
	out.Moving, out.MoveFailed, out.Leaves = movingOf(saved), moveFailedOf(saved), saved.Leaves
	return out
}
