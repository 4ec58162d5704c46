package state

import (
	"fmt"
	"math"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// PartsSaved records how saves ended, as nodes reported it. An image of the
// present run is kept, also one that nobody waits for any more. The image of a
// job that is to go on elsewhere, or to make room, ends its run: it waits then,
// and goes on from there. Reports on other runs, and on runs whose end is decided,
// change nothing; the node may forget any once it has been applied.
type PartsSaved struct {
	Reports []SaveReport `cbor:"1,keyasint"`
}

// SaveReport is a node's report on one save. See pb.PartSaved.
type SaveReport struct {
	Job    uint32 `cbor:"1,keyasint"`
	Epoch  uint32 `cbor:"2,keyasint"`
	Node   string `cbor:"3,keyasint"`
	Number uint32 `cbor:"4,keyasint"` // of the image
	// The image, without a digest if there is none.
	Digest     Digest `cbor:"5,keyasint,omitempty"`
	Store      string `cbor:"6,keyasint,omitempty"`
	Bytes      uint64 `cbor:"7,keyasint,omitempty"`
	Written    uint64 `cbor:"8,keyasint,omitempty"`
	StandingMS uint32 `cbor:"9,keyasint,omitempty"`
	PackMS     uint32 `cbor:"10,keyasint,omitempty"`
	Stands     bool   `cbor:"11,keyasint,omitempty"` // still
	Error      string `cbor:"12,keyasint,omitempty"` // why there is no image
}

// SaveReportFromMessage makes the record of a node's report on a save.
func SaveReportFromMessage(node string, saved *pb.PartSaved) SaveReport {
	report := SaveReport{
		Job: saved.GetPart().GetJob(), Epoch: saved.GetPart().GetEpoch(), Node: node, Number: saved.GetNumber(),
		StandingMS: saved.GetStandingMs(), PackMS: saved.GetPackMs(), Stands: saved.GetStands(),
		Error: clip(strings.ToValidUTF8(saved.GetError(), "?"), MaxTextBytes),
	}
	image := saved.GetImage()
	switch {
	case image == nil:
	case copy(report.Digest[:], image.GetDigest()) != len(report.Digest) || len(image.GetDigest()) != len(report.Digest) || report.Digest == (Digest{}):
		report.Digest, report.Error = Digest{}, "the node named the image by no SHA-256"
	default:
		report.Store, report.Bytes, report.Written = clip(strings.ToValidUTF8(image.GetStore(), "?"), MaxNameBytes), image.GetBytes(), saved.GetWrittenBytes()
	}
	if report.Digest == (Digest{}) && report.Error == "" {
		report.Error = "the node did not say why"
	}
	return report
}

func (PartsSaved) kind() Kind   { return KindPartsSaved }
func (PartsSaved) level() Level { return LevelFrozen }

func (c PartsSaved) apply(s *State, result *Result) {
	if len(c.Reports) > MaxReports {
		result.Refused = refuse(Exhausted, "%d reports in one entry are too many: at most %d", len(c.Reports), MaxReports)
		return
	}
	for i := range c.Reports {
		s.partSaved(&c.Reports[i])
	}
}

// SaveMatters says whether a report on a save changes anything: it is of the
// present run, was not told before, and is of an image or of the save that is under
// way.
func (t *tables) SaveMatters(report *SaveReport) bool {
	job, part := t.LivePart(PartRef{report.Job, report.Epoch, report.Node})
	if part == nil || job.Phase != Running || job.Saved == nil || report.Number == 0 || report.Number > job.Saved.Number {
		return false
	}
	if job.IsGang() {
		return job.gangSaveMatters(report)
	}
	if report.Digest == (Digest{}) {
		return job.Run.Saving != nil && job.Run.Saving.Number == report.Number
	}
	images := job.Saved.Images
	return job.Saved.image(report.Number) == nil && (len(images) < KeptImages || images[len(images)-1].Number < report.Number)
}

func (s *State) partSaved(report *SaveReport) {
	if !s.SaveMatters(report) {
		return
	}
	job, _ := s.Job(report.Job)
	saving := job.Saving()
	mine := saving != nil && saving.Number == report.Number
	switch {
	case job.IsGang():
		s.gangPartSaved(job, report)
		return
	case report.Digest == (Digest{}):
		s.saveFailed(job, report.Error, report.Stands)
		return
	}
	next, saved := job.withSaved()
	image := imageNeed(job)
	s.addPart(job, &image, report)
	saved.add(image)
	saved.Saves++
	if saved.FailedNumber <= report.Number {
		saved.FailedNumber, saved.Failed, saved.FailedMS = 0, "", 0
	}
	saved.StandingMS += uint64(image.StandingMS)
	if report.Stands && (!mine || !saving.Purpose.stands()) {
		next.takeBack(report.Number)
	}
	if !mine {
		s.putJob(next)
		return
	}
	next.setSaving(nil)
	switch {
	case !saving.Purpose.stands():
		s.putJob(next)
	case !report.Stands:
		// It has run on since, so it cannot go on from there without doing
		// something twice.
		s.putJob(next)
		s.savedAndRan(next, saving)
	default:
		s.leave(next, saving, report.Number)
	}
}

// addPart puts what a report says into an image. What a node says of times is
// bounded by what can be. The image is as old as the part that stood first.
func (s *State) addPart(job *Job, image *Image, report *SaveReport) {
	for i := range image.Parts {
		if p := &image.Parts[i]; p.Node == report.Node {
			p.Digest, p.Store, p.Bytes, p.Written = report.Digest, report.Store, report.Bytes, report.Written
		}
	}
	savedMS := max(s.timeMS-int64(report.PackMS), job.Run.StartMS)
	if image.Number == 0 || savedMS < image.SavedMS {
		image.SavedMS, image.RanMS = savedMS, job.workedMS(savedMS)
	}
	image.Number, image.Epoch = report.Number, report.Epoch
	image.PackMS = max(image.PackMS, report.PackMS)
	image.StandingMS = max(image.StandingMS, report.StandingMS)
	if report.Stands { // it did while it was packed, and does
		image.StandingMS = max(image.StandingMS, report.PackMS)
	}
}

// takeBack has the node told that a part which stands shall go on.
func (j *Job) takeBack(number uint32) {
	run := *j.Run
	run.Abandoned = number
	j.Run = &run
}

// leave ends a run that was saved and stands still: the job goes on from the image
// later, elsewhere. One that was to make room runs on if nobody needs that any
// more. next is the job with the image, and saves nothing any more.
func (s *State) leave(next *Job, saving *Saving, number uint32) {
	s.putJob(next)
	next, saved := next.withSaved()
	image := saved.image(number)
	end := &End{State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Stands: true}
	if saving.Purpose == SaveMove {
		saved.To, saved.From, saved.UntilMS = saving.To, "", s.timeMS+moveWishMS
		to := ""
		if len(saving.To) > 0 {
			to = " to " + words.FormatHostList(saving.To)
		} else {
			saved.From = image.Parts[0].Node
		}
		end.Detail = fmt.Sprintf("moved from node %s%s: goes on from image %d", words.FormatHostList(image.Nodes()), to, number)
	} else {
		order := saving.Order
		if _, _, err := s.checkPreemption(order); err != nil {
			next.takeBack(number)
			s.putJob(next)
			return
		}
		next.notePreemption(order.LostGPUMS)
		end.State = pb.JobState_JOB_STATE_PREEMPTED
		end.Detail = fmt.Sprintf("preempted by job %d: goes on from image %d; lost %s", order.For, number, lostText(order.LostGPUMS, next.Run.unit()))
		end.Preempted = &Preempted{For: order.For, AtMS: s.timeMS}
	}
	next.decided(end)
	s.putJob(next)
}

// notePreemption counts a preemption, and what it has cost.
func (j *Job) notePreemption(lostGPUMS int64) {
	lost := max(lostGPUMS, 0)
	j.Preemptions++
	j.LostGPUMS += min(lost, math.MaxInt64-j.LostGPUMS)
}

// saveFailed notes why a job was not saved. It runs on, unless it has to make
// room; a part that may still stand is told to.
func (s *State) saveFailed(job *Job, why string, stands bool) {
	saving := job.Saving()
	next, saved := job.withSaved()
	next.setSaving(nil)
	if stands {
		next.takeBack(saving.Number)
	}
	saved.FailedNumber, saved.Failed, saved.FailedMS = saving.Number, clip(why, MaxTextBytes), s.timeMS
	s.putJob(next)
	s.savedAndRan(next, saving)
}

// savedAndRan carries out otherwise what a save was for that has failed: a job
// that has to make room is requeued or cancelled as if there were no images.
func (s *State) savedAndRan(job *Job, saving *Saving) {
	if saving.Purpose != SavePreemption {
		return
	}
	order := *saving.Order
	order.Save = false
	order.LostGPUMS = job.lostGPUMS(s.timeMS)
	if victim, waiting, err := s.checkPreemption(&order); err == nil {
		s.preempt(victim, waiting, &order)
	}
}

// lostGPUMS is what a run loses if it ends now: what it did since it was saved
// last, or since its start.
func (j *Job) lostGPUMS(nowMS int64) int64 {
	since := j.Run.StartMS
	if images := j.Images(); len(images) > 0 && images[0].Epoch == j.Epoch {
		since = max(since, images[0].SavedMS)
	}
	return times(max(nowMS-since, 0), j.Run.units(), 1)
}
