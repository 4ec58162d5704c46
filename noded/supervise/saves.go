package supervise

import (
	"cmp"
	"errors"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Saves is what an allocation knows of its images.
type Saves struct {
	Now            *Save          // under way
	Next           *pb.SaveAlloc  // begins when that is over
	Last           *pb.AllocSaved // how the newest ended; replaced when it is to be told again
	Frozen         *Save          // with which the job is frozen, to resume elsewhere; nil = it is not
	Checkpointable *pb.AllocCheckpointable
}

// Save is one image being made.
type Save struct {
	Order *pb.SaveAlloc // replaced when the same number is ordered again
	Step  Step
	ran   bool // the job, since it was dumped
	taken bool // back, while it was dumped

	Parked bool // the job is parked: it is dumped as it stands, and stays so
}

// Reasons for which a save ends early, or is refused.
var (
	ErrAborted    = errors.New("the save was taken back")
	ErrEnding     = errors.New("the job ends")
	ErrLeaseEnded = errors.New("the lease of the job ended meanwhile")
	errNotStarted = errors.New("the job has not started yet: ask again in a moment")
)

// ErrPassing marks an error that does not say whether the job can be saved.
var ErrPassing = errors.New("it says nothing of the job")

// Save takes an order to save the allocation, to abort that, or to resume a job that
// is frozen with its image. It may come twice.
func (a *Alloc) Save(order *pb.SaveAlloc) Do {
	number := order.GetNumber()
	switch {
	case order.GetAbandon() && a.Now != nil:
		if number >= a.Next.GetNumber() {
			a.Next = order
		}
		if number >= a.Now.Order.GetNumber() {
			return a.abortNow()
		}
	case order.GetAbandon():
		return a.abort(order)
	case a.Now != nil && number == a.Now.Order.GetNumber():
		a.Now.Order = order
	case a.Now != nil && number > a.Now.Order.GetNumber():
		if number >= a.Next.GetNumber() { // otherwise the order was late on its way
			a.Next = order
		}
	case a.Now != nil:
		// Older than what is under way: its outcome was told.
	case a.Last.GetNumber() >= number:
		// It is over: that is told again.
		var do Do
		if order.GetThen() == pb.SaveThen_SAVE_THEN_RESUME && a.Last.GetNumber() == number {
			do = a.resumeAfterSave()
		}
		a.Last, do.Tell = proto.CloneOf(a.Last), true
		return do
	default:
		return a.begin(order, a.resumeAfterSave())
	}
	return Do{}
}

// begin begins a save, after something else that is to be done.
func (a *Alloc) begin(order *pb.SaveAlloc, do Do) Do {
	a.Now = &Save{Order: order}
	do.Begin = a.Now
	return do
}

// abortNow ends the save under way, which nobody wants any longer. It lets a dump finish:
// processes that CRIU releases in the middle may die.
func (a *Alloc) abortNow() Do {
	if a.Dumping() {
		a.Now.taken = true
		return Do{}
	}
	return Do{Abort: ErrAborted}
}

// abort carries out an order to save nothing, while nothing is being saved. What it
// aborts may come only later, and is not done then.
func (a *Alloc) abort(order *pb.SaveAlloc) Do {
	if a.Frozen != nil && order.GetNumber() < a.Frozen.Order.GetNumber() {
		return Do{} // it is late: the job is frozen for a later one
	}
	do := a.resumeAfterSave()
	if order.GetNumber() > a.Last.GetNumber() {
		a.Last = &pb.AllocSaved{Alloc: a.ID, Number: order.GetNumber(), Error: ErrAborted.Error()}
		do.Tell = true
	}
	return do
}

// resumeAfterSave resumes a job that is frozen with its image.
func (a *Alloc) resumeAfterSave() Do {
	if a.Frozen == nil {
		return Do{}
	}
	a.Frozen = nil
	a.Last = proto.CloneOf(a.Last)
	a.Last.Frozen = false
	return Do{Resume: true, Tell: true}
}

// MaySave refuses what cannot be saved whatever is tried, when the save under way begins.
func (a *Alloc) MaySave() error {
	switch {
	case !a.Up || !a.Released: // an image without the script could not resume with it
		return errNotStarted
	case a.Ending:
		return ErrEnding
	case a.Park.Step != Parked && (a.Park.Wanted || a.Park.lacks()):
		return ErrReclaimed
	case a.Checkpointable.GetCheckpointable() == pb.Checkpointable_CHECKPOINTABLE_NO:
		return errors.New(a.Checkpointable.GetReason())
	}
	if a.Now != nil {
		a.Now.Parked = a.Park.Step == Parked
	}
	return nil
}

// WantsFrozen says whether the job must stay frozen with its image. A job that has run
// since is beyond its image.
func (s *Save) WantsFrozen() bool {
	return s.Order.GetThen() == pb.SaveThen_SAVE_THEN_FREEZE && !s.ran
}

// RunsOn notes that the job runs after it was dumped.
func (s *Save) RunsOn() { s.ran = true }

// Dumped answers why a dump that succeeded is useless; nil = it is good.
func (s *Save) Dumped() error {
	if s.taken {
		return ErrAborted
	}
	return nil
}

// Settled says whether the job stays frozen at the end of a save; otherwise it runs.
func (s *Save) Settled(image bool) (frozen bool) { return image && s.WantsFrozen() }

// Outcome says how a save ended: with an image, nil = without. An image may be whole
// although a later step failed.
func (a *Alloc) Outcome(s *Save, image *pb.Image, failure error) *pb.AllocSaved {
	saved := &pb.AllocSaved{Alloc: a.ID, Number: s.Order.GetNumber(), Image: image, Checkpointable: checkpointableAfter(failure)}
	if image == nil {
		saved.Error = cmp.Or(failure, ErrAborted).Error()
		return saved
	}
	saved.Frozen = failure == nil && s.WantsFrozen()
	return saved
}

// checkpointableAfter says what the end of a save means for the next one.
func checkpointableAfter(failure error) pb.Checkpointable {
	switch {
	case failure == nil:
		return pb.Checkpointable_CHECKPOINTABLE_YES
	case errors.Is(failure, ErrAborted), errors.Is(failure, ErrEnding), errors.Is(failure, ErrLeaseEnded), errors.Is(failure, ErrReclaimed), errors.Is(failure, ErrPassing):
		return pb.Checkpointable_CHECKPOINTABLE_UNSPECIFIED
	}
	return pb.Checkpointable_CHECKPOINTABLE_NOT_NOW
}

// Saved notes how the save under way ended, and begins the one that waits. If somebody
// asked meanwhile that the job resumes, its outcome is no longer frozen.
func (a *Alloc) Saved(result *pb.AllocSaved) Do {
	s, next := a.Now, a.Next
	a.Now, a.Next = nil, nil
	do := Do{Tell: true}
	if result.Frozen && (s.Order.GetThen() != pb.SaveThen_SAVE_THEN_FREEZE || a.Ending) {
		result.Frozen, do.Resume = false, true
	}
	if result.Frozen {
		a.Frozen = s
	}
	a.Last = result
	if result.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_UNSPECIFIED && a.Checkpointable.GetCheckpointable() != pb.Checkpointable_CHECKPOINTABLE_NO {
		a.Checkpointable = &pb.AllocCheckpointable{
			Alloc: a.ID, Checkpointable: result.Checkpointable, Reason: result.Error, Tried: result.Checkpointable == pb.Checkpointable_CHECKPOINTABLE_NOT_NOW,
		}
	}
	switch {
	case next == nil:
		return do
	case next.GetAbandon():
		return do.and(a.abort(next))
	}
	return a.begin(next, do.and(a.resumeAfterSave()))
}

// and joins two things to do, of which at most one resumes the job.
func (d Do) and(more Do) Do {
	d.Resume, d.Tell = d.Resume || more.Resume, d.Tell || more.Tell
	return d
}

// StopSaves ends the save under way, because the job ends. None begins after it.
func (a *Alloc) StopSaves() Do {
	a.Next = nil
	if a.Now == nil {
		return Do{}
	}
	return Do{Abort: ErrEnding}
}

// Dumping says whether CRIU works in the job's processes. Then nothing else may freeze or
// thaw them.
func (a *Alloc) Dumping() bool { return a.Now != nil && a.Now.Step == StepDump }

// leaseEndsPark is why an attempt to park the job ends with its lease: for that it must
// run.
func (a *Alloc) leaseEndsPark() error {
	if a.Park.Step == ParkTaking {
		return ErrLeaseEnded
	}
	return nil
}

// leaseEndsSave is why a save ends with the lease: while it dumps, only CRIU keeps the
// processes from running, and while it parks, they must run.
func (a *Alloc) leaseEndsSave() error {
	if a.Dumping() || a.Now != nil && a.Now.Step == StepPark {
		return ErrLeaseEnded
	}
	return nil
}
