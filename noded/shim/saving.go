package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// endPatience is how long the end of a part waits for a save to be over, which
// has been told to.
const endPatience = 15 * time.Second

// saves is what a part knows of its images. It is guarded by part.mu.
type saves struct {
	now    *save         // under way
	next   *pb.SavePart  // begins when that is over
	last   *pb.PartSaved // how the newest ended
	stands *save         // by which the job stands, to go on elsewhere; nil = it does not
	grade  *pb.PartGrade
	tail   chan struct{} // closed when all that was begun is over
	// letGo is when criu last let go of the job's processes in the middle of a
	// dump; zero = never.
	letGo time.Time
}

// save is one image being made.
type save struct {
	cancel context.CancelCauseFunc

	// Guarded by part.mu.
	order *pb.SavePart // replaced when the same number is ordered anew
	ranOn bool         // the job, since it was dumped
	taken bool         // back, while it was dumped
	step  saveStep

	// The rest is of its own goroutine.
	begun    time.Time
	stopped  time.Time // when it was told to stand
	stopMS   uint32
	standMS  uint32
	manifest *checkpoint.Manifest
	packed   *packed
	store    string     // in which it is
	facts    cuda.Facts // of its GPUs, before it was stopped
}

// takeSave takes an order to save the part, to take that back, or to let a part
// go on that stands with its image. It may come twice.
func (p *part) takeSave(order *pb.SavePart) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.saves
	number := order.GetNumber()
	switch {
	case order.Abandon && s.now != nil:
		if number >= s.now.order.Number {
			s.now.takeBack()
		}
		if number >= s.next.GetNumber() {
			s.next = order
		}
	case order.Abandon:
		p.takeBack(order)
	case s.now != nil && number == s.now.order.Number:
		s.now.order = order
	case s.now != nil && number > s.now.order.Number:
		if number >= s.next.GetNumber() { // else it was late on its way
			s.next = order
		}
	case s.now != nil:
		// Older than what is under way: its outcome was told.
	case s.last.GetNumber() >= number:
		// It is over: that is told again.
		if order.Then == pb.SaveThen_SAVE_THEN_GO_ON && s.last.Number == number {
			p.standNoMore()
		}
		s.last = proto.CloneOf(s.last)
		p.notify()
	default:
		p.standNoMore()
		p.beginSave(order)
	}
}

// takeBack carries out an order to save nothing, while nothing is being saved.
// What it takes back may come only later, and is not done then. The caller holds
// p.mu.
func (p *part) takeBack(order *pb.SavePart) {
	if s := p.saves.stands; s != nil && order.Number < s.order.Number {
		return // it is late: the part stands for a later one
	}
	p.standNoMore()
	if order.Number > p.saves.last.GetNumber() {
		p.saves.last = &pb.PartSaved{Part: p.order.Part, Number: order.Number, Error: errTakenBack.Error()}
		p.notify()
	}
}

// takeBack ends a save that nobody wants any more. A dump is awaited: processes
// that criu lets go of in the middle may not survive that. The caller holds
// part.mu.
func (s *save) takeBack() {
	if s.step == saveDump {
		s.taken = true
		return
	}
	s.cancel(errTakenBack)
}

// standNoMore lets a job go on that stands with its image. The caller holds
// p.mu.
func (p *part) standNoMore() {
	s := p.saves.stands
	if s == nil {
		return
	}
	p.saves.stands = nil
	p.saves.last = proto.CloneOf(p.saves.last)
	p.saves.last.Stands = false
	p.notify()
	p.afterEarlier(func() {
		p.log.Info("the job goes on here after it was saved", "image", s.order.Number)
		if err := p.runOn(s); err != nil {
			p.log.Error("a job that was saved does not go on as it should: see its processes (ps), and cancel it if they stand", "error", err)
		}
	})
}

// afterEarlier does something about saves when what was begun earlier is over.
// The caller holds p.mu.
func (p *part) afterEarlier(do func()) {
	earlier, over := p.saves.tail, make(chan struct{})
	p.saves.tail = over
	go func() {
		defer close(over)
		if earlier != nil {
			<-earlier
		}
		do()
	}()
}

// beginSave starts to make an image. The caller holds p.mu.
func (p *part) beginSave(order *pb.SavePart) {
	timeout := cmp.Or(time.Duration(order.TimeoutS)*time.Second, p.settings.Checkpoint.timeout())
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &save{order: order, cancel: cancel, begun: time.Now()}
	p.saves.now = s
	p.afterEarlier(func() {
		defer cancel(nil)
		ctx, stop := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w: it had %v", errSaveLate, timeout))
		defer stop()
		p.log.Info("the job is being saved", "image", order.Number)
		failure := p.maySave()
		if failure == nil {
			failure = walk(ctx, func() bool { return p.wantsToStand(s) }, func(ctx context.Context, step saveStep) error {
				return p.saveStep(ctx, s, step)
			})
		}
		p.saveOver(s, failure)
	})
}

// wantsToStand says whether the job is to stand with its image. One that has
// run on since has gone beyond it.
func (p *part) wantsToStand(s *save) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.order.Then == pb.SaveThen_SAVE_THEN_STAND && !s.ranOn
}

// maySave refuses what cannot be saved whatever is tried.
func (p *part) maySave() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch grade := p.saves.grade; {
	case !p.ready || p.saver == nil || !p.released: // an image without the script could not go on with it
		return &notNowError{"the job has not started yet: ask again in a moment"}
	case p.ending != nil:
		return errEnding
	case grade.GetGrade() == pb.SaveGrade_SAVE_GRADE_NO:
		return errors.New(grade.Reason)
	}
	return nil
}

// saveOver notes how a save ended, and begins the one that waits.
func (p *part) saveOver(s *save, failure error) {
	result := p.savedMessage(s, failure)
	if err := p.dir.writeSaved(result); err != nil {
		p.log.Warn("how the job was saved is not on disk: it is told only while its supervisor lives", "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Asked once more under the lock that orders take: whoever asked meanwhile
	// that it go on is heard.
	if result.Stands && (s.order.Then != pb.SaveThen_SAVE_THEN_STAND || p.ending != nil) {
		result.Stands = false
		p.afterEarlier(func() {
			if err := p.runOn(s); err != nil {
				p.log.Error("a job that was saved does not go on as it should: see its processes (ps), and cancel it if they stand", "error", err)
			}
		})
	}
	if result.Stands {
		p.saves.stands = s
	}
	p.saves.last, p.saves.now = result, nil
	p.saves.grade = p.gradeAfter(result)
	if result.Image == nil {
		p.log.Warn("the job was not saved and runs on: see the error for what would help", "image", result.Number, "error", failure)
	} else {
		p.log.Info("the job was saved", "image", result.Number, "stands", result.Stands, "stop_ms", result.StopMs,
			"standing_ms", result.StandingMs, "pack_ms", result.PackMs, "bytes", result.Image.Bytes, "written_bytes", result.WrittenBytes)
	}
	p.notify()
	next := p.saves.next
	p.saves.next = nil
	switch {
	case next == nil:
	case next.Abandon:
		p.takeBack(next)
	default:
		p.standNoMore()
		p.beginSave(next)
	}
}

// savedMessage says how a save ended.
func (p *part) savedMessage(s *save, failure error) *pb.PartSaved {
	stand := p.wantsToStand(s)
	p.mu.Lock()
	order := s.order
	p.mu.Unlock()
	result := &pb.PartSaved{Part: p.order.Part, Number: order.Number, StopMs: s.stopMS, StandingMs: s.standMS}
	result.Grade = gradeOf(failure)
	if s.packed == nil {
		result.Error = clip(cmp.Or(failure, errTakenBack).Error())
		return result
	}
	result.Image = &pb.Image{
		Part: p.order.Part, Number: order.Number, Digest: s.packed.digest[:], Store: s.store,
		Node: p.settings.Node, Bytes: s.packed.bytes,
	}
	result.WrittenBytes = s.packed.written
	result.PackMs = uint32(time.Since(s.begun).Milliseconds())
	result.Stands = failure == nil && stand
	return result
}

// stopSaving ends a save that is under way because the job ends, and waits
// until nothing of it goes on. Nothing is saved any more.
func (p *part) stopSaving() {
	p.mu.Lock()
	p.saves.next = nil
	if s := p.saves.now; s != nil {
		s.cancel(errEnding)
	}
	tail := p.saves.tail
	p.mu.Unlock()
	if tail == nil {
		return
	}
	select {
	case <-tail:
	case <-time.After(endPatience):
		p.log.Error("a save of the job does not end: the job is ended without it; see what criu waits for (ps)")
	}
}

// standsSaved says whether the job stands because it was saved to go on
// elsewhere: then it does not run here any more, not even to end.
func (p *part) standsSaved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saves.stands != nil
}

// dumping says whether criu is looking into the job's processes, which then
// nothing else may stop or let go.
func (p *part) dumping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saves.now != nil && p.saves.now.step == saveDump
}

// leaseEndsSave ends a save that is looking into the job's processes, which then
// nothing but criu keeps from running, or for which they have to run, when the
// lease does not let them run any more.
func (p *part) leaseEndsSave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.saves.now; s != nil && (s.step == saveDump || s.step == savePark) {
		s.cancel(errSaveLease)
	}
}
