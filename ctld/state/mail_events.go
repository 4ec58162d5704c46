package state

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file keeps the outbox of mail: what happened to jobs of which somebody wants to
// hear (--mail-type), until the leader has handed the mails over (package mail). An event
// enters it in the command that brings it about, and TrimMail takes off the front what
// was handed over. Nothing waits for a mail: what waits for longer than MailKeptMS, what
// is more than MaxUserMails of one user or MaxMailBytes of all is given up and counted.

// MailEvent is one event to tell of, with what its mail says. A stored one is never
// changed.
type MailEvent struct {
	At     Position `cbor:"1,keyasint"`
	TimeMS int64    `cbor:"2,keyasint"`
	Kind   uint32   `cbor:"3,keyasint"` // one bit of spec.MailTypes

	Job     uint32 `cbor:"4,keyasint"`
	Array   uint32 `cbor:"5,keyasint,omitempty"`
	Task    uint32 `cbor:"6,keyasint,omitempty"`
	HasTask bool   `cbor:"7,keyasint,omitempty"`
	// Whole is of an array as a whole; nil = the event is one of a single job.
	Whole *ArrayMail `cbor:"8,keyasint,omitempty"`

	UserID        uint32 `cbor:"9,keyasint,omitempty"`
	User          string `cbor:"10,keyasint,omitempty"`
	Group         string `cbor:"11,keyasint,omitempty"`
	To            string `cbor:"12,keyasint,omitempty"` // as in --mail-user; "" = the user
	Name          string `cbor:"13,keyasint,omitempty"`
	WorkDirectory string `cbor:"14,keyasint,omitempty"`
	Nodes         string `cbor:"15,keyasint,omitempty"`
	Why           string `cbor:"16,keyasint,omitempty"`

	SubmitMS int64 `cbor:"17,keyasint,omitempty"`
	StartMS  int64 `cbor:"18,keyasint,omitempty"` // 0 = it has not run
	EndMS    int64 `cbor:"19,keyasint,omitempty"` // 0 = it is not over

	// Of a job that is over.
	State           pb.JobState `cbor:"20,keyasint,omitempty"`
	ExitCode        uint32      `cbor:"21,keyasint,omitempty"`
	ExitSignal      uint32      `cbor:"22,keyasint,omitempty"`
	Cores           uint32      `cbor:"23,keyasint,omitempty"`
	CPUNS           uint64      `cbor:"24,keyasint,omitempty"`
	MemoryBytes     uint64      `cbor:"25,keyasint,omitempty"` // the most that it had on a node
	PeakMemoryBytes uint64      `cbor:"26,keyasint,omitempty"`
}

// ArrayMail is what is known of the tasks of an array of which one mail tells.
type ArrayMail struct {
	Array    uint32        `cbor:"1,keyasint"`
	Begun    bool          `cbor:"2,keyasint,omitempty"`
	Failed   bool          `cbor:"3,keyasint,omitempty"`
	Over     uint32        `cbor:"4,keyasint,omitempty"`
	LowCode  uint32        `cbor:"5,keyasint,omitempty"` // of those that are over
	HighCode uint32        `cbor:"6,keyasint,omitempty"`
	States   []pb.JobState `cbor:"7,keyasint,omitempty"` // ascending
}

func (e *MailEvent) position() Position { return e.At }

// mailOverhead is about what an event takes beside its texts.
const mailOverhead = 256

func (e *MailEvent) size() uint64 {
	return mailOverhead + uint64(len(e.User)+len(e.Group)+len(e.To)+len(e.Name)+len(e.WorkDirectory)+len(e.Nodes)+len(e.Why))
}

// MailAfter are the events behind a position that are not trimmed.
func (t *tables) MailAfter(at Position) iter.Seq[*MailEvent] { return t.mails.after(at) }

// MailTrimmed is the position up to which all mails were handed over or given up.
func (t *tables) MailTrimmed() Position { return t.mails.trimmed }

// MailSize is how many events wait to be told, and how many were given up.
func (t *tables) MailSize() (events int, lost uint64) { return len(t.mails.records), t.mails.lost }

// noteMail adds what there is to tell of a job that became another; old is nil if there
// was none.
func (s *State) noteMail(old, job *Job) {
	if s.mailsOf == nil { // a trial
		return
	}
	if s.arrayMails.Len() > 0 {
		defer s.forgetArrayMail(job)
	}
	types := spec.MailTypes(job.Spec.MailTypes)
	if types == 0 || s.policy.Mail == nil {
		return
	}
	if job.NeverStarts() && (old == nil || !old.NeverStarts()) {
		s.addMail(types, spec.MailInvalidDepend, job, nil)
	}
	switch summed := job.Array != 0 && types&spec.MailArrayTasks == 0; {
	case old != nil && job.Phase == Waiting && job.Restarts > old.Restarts:
		s.addMail(types, spec.MailRequeue, job, nil)
	case job.begun() && (old == nil || !old.begun()):
		if !summed {
			s.addMail(types, spec.MailBegin, job, nil)
		} else if whole := s.arrayMail(job.Array); !whole.Begun {
			whole.Begun = true
			s.arrayMails.Set(job.Array, whole)
			s.addMail(types, spec.MailBegin, job, whole)
		}
	case job.Phase == Finished && (old == nil || old.Phase != Finished):
		s.noteEndMail(types, job, summed)
	}
}

// begun reports whether the job's own run has begun and is not over.
func (j *Job) begun() bool { return j.Phase == Running && !j.Stages() }

// noteEndMail is about a job that is over, or the array of which it was the last.
func (s *State) noteEndMail(types spec.MailTypes, job *Job, summed bool) {
	failed := job.End.State != pb.JobState_JOB_STATE_COMPLETED && job.End.State != pb.JobState_JOB_STATE_CANCELLED
	var whole *ArrayMail
	if summed {
		whole = s.arrayMail(job.Array)
		whole.note(job.End, failed)
		if s.HasLiveTasks(job.Array) {
			s.arrayMails.Set(job.Array, whole)
			return
		}
		failed = whole.Failed
	}
	// Who wants to hear of ends but not of failures hears of those as ends (slurmctld
	// does so).
	kind := spec.MailEnd
	if failed && types&spec.MailFail != 0 {
		kind = spec.MailFail
	}
	s.addMail(types, kind, job, whole)
}

// arrayMail is a copy of what is known of an array.
func (s *State) arrayMail(array uint32) *ArrayMail {
	known, ok := s.arrayMails.Get(array)
	if !ok {
		return &ArrayMail{Array: array}
	}
	whole := *known
	return &whole
}

func (a *ArrayMail) note(end *End, failed bool) {
	if a.Over == 0 {
		a.LowCode, a.HighCode = end.ExitCode, end.ExitCode
	}
	a.LowCode, a.HighCode = min(a.LowCode, end.ExitCode), max(a.HighCode, end.ExitCode)
	a.Over++
	a.Failed = a.Failed || failed
	if at, is := slices.BinarySearch(a.States, end.State); !is {
		a.States = slices.Insert(slices.Clone(a.States), at, end.State)
	}
}

// forgetArrayMail forgets an array of which no task is left, also if nobody wants to hear
// of it any more.
func (s *State) forgetArrayMail(job *Job) {
	if job.Array != 0 && job.Phase == Finished && !s.HasLiveTasks(job.Array) {
		s.arrayMails.Delete(job.Array)
	}
}

// addMail adds an event of a kind, if it is wanted.
func (s *State) addMail(types, kind spec.MailTypes, job *Job, whole *ArrayMail) {
	if types&kind == 0 {
		return
	}
	s.dropOldMail()
	if s.mailsOf[job.Owner().UID] >= bounds.MaxUserMails {
		s.mails.lost++
		return
	}
	s.boxMail(s.mailEvent(kind, job, whole))
	s.unboxMail(s.mails.bound(bounds.MaxMailBytes))
}

func (s *State) boxMail(event *MailEvent) {
	s.mails.add(event)
	s.mailsOf[event.UserID]++
}

// unboxMail stops to count events of users that were removed.
func (s *State) unboxMail(gone []*MailEvent) {
	for _, event := range gone {
		if s.mailsOf[event.UserID]--; s.mailsOf[event.UserID] == 0 {
			delete(s.mailsOf, event.UserID)
		}
	}
}

// dropOldMail gives up what waits for so long that nobody needs to hear of it.
func (s *State) dropOldMail() {
	gone := 0
	for gone < len(s.mails.records) && s.mails.records[gone].TimeMS < s.timeMS-bounds.MailKeptMS {
		gone++
	}
	s.mails.lost += uint64(gone)
	s.unboxMail(s.mails.drop(gone))
}

// mailEvent is an event with what its mail says.
func (s *State) mailEvent(kind spec.MailTypes, job *Job, whole *ArrayMail) *MailEvent {
	own, owner := job.Own(), job.Owner()
	event := &MailEvent{
		At: s.mails.next(s.index), TimeMS: s.timeMS, Kind: uint32(kind),
		Job: job.ID, Array: job.Array, Task: job.Task, HasTask: job.HasTask, Whole: whole,
		UserID: owner.UID, User: owner.User, Group: owner.Group, To: job.Spec.MailUser,
		Name: bounds.Clip(own.Name, maxHistoryText), WorkDirectory: bounds.Clip(own.WorkDirectory, maxHistoryText), Why: bounds.Clip(job.Detail, maxHistoryText),
		SubmitMS: job.SubmitMS,
	}
	if run := job.Run; run != nil {
		event.StartMS, event.Nodes = run.StartMS, bounds.Clip(spec.FormatHostList(job.Nodes()), maxHistoryText)
		for i := range run.Allocs {
			event.Cores += uint32(len(run.Allocs[i].CPUs))
			event.MemoryBytes = max(event.MemoryBytes, run.Allocs[i].MemoryBytes)
		}
	}
	if end := job.End; end != nil && job.Phase == Finished {
		event.EndMS, event.State, event.ExitCode, event.ExitSignal = end.EndMS, end.State, end.ExitCode, end.ExitSignal
		event.CPUNS, event.PeakMemoryBytes, event.Why = end.CPUNS, end.PeakMemoryBytes, bounds.Clip(end.Detail, maxHistoryText)
		if event.EndMS == 0 {
			event.EndMS = s.timeMS
		}
	}
	return event
}

func (s *State) restoreMail(record *outboxRecord[*MailEvent]) error {
	for _, event := range record.Records {
		if event == nil {
			return errors.New("an event is empty")
		}
		s.mailsOf[event.UserID]++
	}
	return s.mails.restore(record, s.index)
}

func (s *State) restoreArrayMail(whole *ArrayMail) error {
	if _, twice := s.arrayMails.Get(whole.Array); twice {
		return fmt.Errorf("the mail about array %d is there twice", whole.Array)
	}
	s.arrayMails.Set(whole.Array, whole)
	return nil
}

// checkMail says what is wrong with the outbox of mail.
func (s *State) checkMail() error {
	count := map[uint32]uint32{}
	for _, event := range s.mails.records {
		count[event.UserID]++
	}
	for uid, counted := range s.mailsOf {
		if counted != count[uid] || counted > bounds.MaxUserMails {
			return fmt.Errorf("mail: %d events of user %d wait, and %d are counted", count[uid], uid, counted)
		}
	}
	if len(count) != len(s.mailsOf) {
		return fmt.Errorf("mail: events of %d users wait, and %d are counted", len(count), len(s.mailsOf))
	}
	for _, array := range s.arrayMails.Keys() {
		if !s.HasLiveTasks(array) {
			return fmt.Errorf("mail: something is known of array %d, of which no task is left", array)
		}
	}
	return s.mails.check("mail", s.index, bounds.MaxMailBytes)
}
