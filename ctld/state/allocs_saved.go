package state

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// AllocsSaved records how saves ended, as nodes reported it. An image of the
// present run is kept, even if nobody waits for it any longer. The image of a
// job that is to make room ends its run: the job then waits, and resumes from
// there. A job that moves is frozen by its image until it is decided what
// becomes of that. Reports on other runs, and on runs whose end is decided,
// change nothing; the node may forget any once it has been applied.
type AllocsSaved struct {
	Reports []SaveReport `cbor:"1,keyasint"`
}

// SaveReport is a node's report on one save. See pb.AllocSaved.
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
	Frozen     bool   `cbor:"11,keyasint,omitempty"` // still
	Error      string `cbor:"12,keyasint,omitempty"` // why there is no image
	Locks      bool   `cbor:"13,keyasint,omitempty"` // held on files
}

// SaveReportFromMessage makes the record of a node's report on a save.
func SaveReportFromMessage(node string, saved *pb.AllocSaved) SaveReport {
	report := SaveReport{
		Job: saved.GetAlloc().GetJob(), Epoch: saved.GetAlloc().GetEpoch(), Node: node, Number: saved.GetNumber(),
		StandingMS: saved.GetStandingMs(), PackMS: saved.GetPackMs(), Frozen: saved.GetFrozen(), Locks: saved.GetLocks(),
		Error: bounds.Clip(strings.ToValidUTF8(saved.GetError(), "?"), bounds.MaxTextBytes),
	}
	image := saved.GetImage()
	switch {
	case image == nil:
	case copy(report.Digest[:], image.GetDigest()) != len(report.Digest) || len(image.GetDigest()) != len(report.Digest) || report.Digest == (Digest{}):
		report.Digest, report.Error = Digest{}, "the node named the image by no SHA-256"
	default:
		report.Store, report.Bytes, report.Written = bounds.Clip(strings.ToValidUTF8(image.GetStore(), "?"), bounds.MaxNameBytes), image.GetBytes(), saved.GetWrittenBytes()
	}
	if report.Digest == (Digest{}) && report.Error == "" {
		report.Error = "the node did not say why"
	}
	return report
}

func (AllocsSaved) kind() Kind { return KindAllocsSaved }
func (c AllocsSaved) apply(s *State, result *Result) {
	if len(c.Reports) > bounds.MaxReports {
		result.Refused = refuse(Exhausted, "%d reports in one entry are too many: at most %d", len(c.Reports), bounds.MaxReports)
		return
	}
	for i := range c.Reports {
		s.allocSaved(&c.Reports[i])
	}
}

// SaveMatters reports whether a report on a save changes anything: it is of the
// present run, of a number that was asked of it and not reported before, and of
// an image or of the save that is under way.
func (t *tables) SaveMatters(report *SaveReport) bool {
	job, alloc := t.presentAlloc(AllocRef{report.Job, report.Epoch, report.Node})
	if alloc == nil || job.Phase != Running || job.Saved == nil || report.Number <= job.Run.Numbered || report.Number > job.Saved.Number {
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

func (s *State) allocSaved(report *SaveReport) {
	if !s.SaveMatters(report) {
		return
	}
	job, _ := s.Job(report.Job)
	saving := job.Saving()
	mine := saving != nil && saving.Number == report.Number
	switch {
	case job.IsGang():
		s.gangAllocSaved(job, report)
		return
	case report.Digest == (Digest{}):
		s.saveFailed(job, report.Error, report.Frozen)
		return
	}
	next, saved := job.withSaved()
	image := imageNeed(job)
	s.addAlloc(job, &image, report)
	saved.add(job, image)
	saved.Saves++
	if saved.FailedNumber <= report.Number {
		saved.FailedNumber, saved.Failed, saved.FailedMS = 0, "", 0
	}
	saved.StandingMS += uint64(image.StandingMS)
	if report.Frozen && (!mine || !saving.Purpose.stands()) {
		next.abortSave(report.Number)
	}
	if !mine {
		s.putJob(next)
		return
	}
	next.setSaving(nil)
	switch {
	case !saving.Purpose.stands():
		s.putJob(next)
	case !report.Frozen:
		// It has run since, so it cannot resume from there without doing
		// something twice.
		s.putJob(s.calledOff(next, "it ran on before its image was durable"))
		s.savedAndRan(next, saving)
	default:
		s.standsSaved(next, saving)
	}
}

// addAlloc puts what a report says into an image. The times that a node reports
// are cut to what is possible. The image is as old as the allocation that was
// frozen first.
func (s *State) addAlloc(job *Job, image *Image, report *SaveReport) {
	for i := range image.Allocs {
		if p := &image.Allocs[i]; p.Node == report.Node {
			p.Digest, p.Store, p.Bytes, p.Written = report.Digest, report.Store, report.Bytes, report.Written
		}
	}
	savedMS := max(s.timeMS-int64(report.PackMS), job.Run.StartMS)
	if image.Number == 0 || savedMS < image.SavedMS {
		image.SavedMS, image.RanMS = savedMS, job.workedMS(savedMS)
	}
	image.Number, image.Epoch, image.Locks = report.Number, report.Epoch, image.Locks || report.Locks
	image.PackMS = max(image.PackMS, report.PackMS)
	image.StandingMS = max(image.StandingMS, report.StandingMS)
	if report.Frozen { // it did while it was packed, and does
		image.StandingMS = max(image.StandingMS, report.PackMS)
	}
}

// abortSave has the node told that a frozen allocation should continue.
func (j *Job) abortSave(number uint32) {
	run := *j.Run
	run.Abandoned = number
	j.Run = &run
}

// leave ends a run that was saved and is frozen to make room: the job resumes
// from the image later. It keeps running if nobody needs the room any longer.
// next is the job with the image, and saves nothing from now on.
func (s *State) leave(next *Job, order *PreemptOrder, number uint32) {
	s.putJob(next)
	copied := *next
	next = &copied
	if _, _, err := s.checkPreemption(order); err != nil {
		next.abortSave(number)
		s.putJob(next)
		return
	}
	next.notePreemption(order.LostGPUMS)
	next.decided(&End{
		State: pb.JobState_JOB_STATE_PREEMPTED, Requeue: true, Frozen: true,
		Detail:    fmt.Sprintf("preempted by %s: resumes from image %d; lost %s", order.forWords(), number, lostText(order.LostGPUMS, next.Run.unit())),
		Preempted: &Preempted{For: order.For, AtMS: s.timeMS},
	})
	s.putJob(next)
}

// standsSaved handles a job that is frozen by its image, for whatever it was
// saved.
func (s *State) standsSaved(next *Job, saving *Saving) {
	switch saving.Purpose {
	case SaveMove:
		s.imageMade(next, saving.Number)
		return
	case SavePack:
		s.packed(next, saving.Number)
		return
	case SaveEvacuation:
		s.savedToLeave(next, saving.Number)
		return
	case SaveReplace:
		s.replaceNodes(next, saving)
		return
	}
	s.leave(next, saving.Order, saving.Number)
}

// saveFailed notes why a job was not saved. It keeps running, unless it has to
// make room; an allocation that may still be frozen is told to.
func (s *State) saveFailed(job *Job, why string, stands bool) {
	saving := job.Saving()
	next, saved := job.withSaved()
	next.setSaving(nil)
	if stands {
		next.abortSave(saving.Number)
	}
	saved.FailedNumber, saved.Failed, saved.FailedMS = saving.Number, bounds.Clip(why, bounds.MaxTextBytes), s.timeMS
	if saving.Purpose == SaveMove {
		next = s.calledOff(next, "it was not saved: "+saved.Failed)
	}
	s.putJob(next)
	s.savedAndRan(next, saving)
}

// savedAndRan does what a failed save was for by other means: a job that has to
// make room is requeued or cancelled as if there were no images.
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

// lostGPUMS is what a run loses if it ends now: what it did since its last
// save, or since its start.
func (j *Job) lostGPUMS(nowMS int64) int64 {
	since := j.Run.StartMS
	if images := j.Images(); len(images) > 0 && images[0].Epoch == j.Epoch {
		since = max(since, images[0].SavedMS)
	}
	return times(max(nowMS-since, 0), j.Run.units(), 1)
}
