package owner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Request is a command that somebody types on the node.
type Request struct {
	By     string
	Within time.Duration // 0 = Notice
	For    time.Duration // until it ends by itself; 0 = it does not
	Kill   bool
}

// Check says what is wrong with a request.
func (o *Owner) Check(r Request) error {
	within := cmp.Or(r.Within, o.Notice())
	switch {
	case within < minWithin || within > maxWithin:
		return fmt.Errorf("%w: guests have between 1 second and 24 hours to leave: use --within=60s, or --kill to end them at once", ErrBad)
	case r.For < 0 || r.For > maxHeld:
		return fmt.Errorf("%w: the reclaim would last longer than a year: leave out --for and --until, and it lasts until grelease --local", ErrBad)
	case r.For != 0 && r.For <= within:
		return fmt.Errorf("%w: the reclaim would be over before its guests have to be gone: use a later --until or a longer --for", ErrBad)
	}
	return nil
}

// Reclaim places the hold of a command, or renews it. The deadline can only come nearer.
func (o *Owner) Reclaim(r Request, now Time) error {
	if err := o.Check(r); err != nil {
		return err
	}
	o.place(&pb.LedgerHold{Trigger: pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL, By: r.By, Kill: r.Kill}, cmp.Or(r.Within, o.Notice()), r.For, now)
	return nil
}

// place places a hold, or renews the one of the same trigger.
func (o *Owner) place(hold *pb.LedgerHold, within, lasts time.Duration, now Time) {
	l := o.ledger
	deadline := now.Boot + within
	if !o.Held() {
		l.Reclaims++
		l.BeganBoottimeNs, l.BeganMs, o.deadline = int64(now.Boot), now.WallMS, deadline
	}
	o.deadline = min(o.deadline, deadline)
	l.DeadlineBoottimeNs = int64(o.deadline)
	hold.By, hold.Detail = clip(hold.By), clip(hold.Detail)
	hold.Number, hold.SinceMs = o.change(now), now.WallMS
	if lasts != 0 {
		hold.UntilMs, hold.UntilBoottimeNs = now.WallMS+lasts.Milliseconds(), int64(now.Boot+lasts)
	}
	at, found := o.find(hold.Trigger)
	if found {
		hold.SinceMs = l.Holds[at].SinceMs
		hold.Kill = hold.Kill || l.Holds[at].Kill
		l.Holds[at] = hold
	} else {
		l.Holds = slices.Insert(l.Holds, at, hold)
	}
	delete(o.quiet, hold.Trigger)
}

func (o *Owner) find(trigger pb.ReclaimTrigger) (at int, found bool) {
	return slices.BinarySearchFunc(o.ledger.Holds, trigger, func(h *pb.LedgerHold, t pb.ReclaimTrigger) int { return cmp.Compare(h.Trigger, t) })
}

// Release ends all holds: somebody types that on the node. Controllers are told to end
// theirs too, also where the node has none.
func (o *Owner) Release(now Time) {
	o.drop(now, func(*pb.LedgerHold) bool { return true })
	o.ledger.Released, o.ledger.ReleasedMs = o.change(now), now.WallMS
}

// Drop ends the holds with a number up to one: somebody has released the node at a
// controller. It answers whether there were any.
func (o *Owner) Drop(through uint64, now Time) (changed bool) {
	return o.drop(now, func(h *pb.LedgerHold) bool { return h.Number <= through })
}

// drop ends holds because a person says so: a trigger that is still seen does not place
// its hold again.
func (o *Owner) drop(now Time, which func(*pb.LedgerHold) bool) bool {
	return o.remove(now, func(h *pb.LedgerHold) bool {
		if !which(h) {
			return false
		}
		if h.Trigger != pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL {
			o.mute(h.Trigger, true)
		}
		return true
	})
}

func (o *Owner) remove(now Time, which func(*pb.LedgerHold) bool) (changed bool) {
	before := len(o.ledger.Holds)
	o.ledger.Holds = slices.DeleteFunc(o.ledger.Holds, func(h *pb.LedgerHold) bool {
		if !which(h) {
			return false
		}
		delete(o.quiet, h.Trigger)
		return true
	})
	if len(o.ledger.Holds) == before {
		return false
	}
	o.change(now)
	return true
}

// Tick ends the holds whose time is over. It answers whether there were any.
func (o *Owner) Tick(now Time) (changed bool) {
	return o.remove(now, func(h *pb.LedgerHold) bool { return h.UntilMs != 0 && now.Boot >= time.Duration(h.UntilBoottimeNs) })
}

// Next is the boot time at which Tick is due; 0 = no hold ends by itself.
func (o *Owner) Next() time.Duration {
	next := time.Duration(0)
	for _, h := range o.ledger.Holds {
		if until := time.Duration(h.UntilBoottimeNs); h.UntilMs != 0 && (next == 0 || until < next) {
			next = until
		}
	}
	return next
}

// Sight is what is seen of a trigger on the node.
type Sight struct {
	Trigger pb.ReclaimTrigger
	Seen    bool
	By      string // whose it is
	Detail  string // what exactly
}

// Look takes what is seen of a trigger: a hold is placed when it is seen and the owner
// wants that, and ends when it has been quiet for a while. It answers whether anything
// changed.
func (o *Owner) Look(s Sight, now Time) (changed bool) {
	_, held := o.find(s.Trigger)
	wanted := slices.Contains(o.ledger.Rules.Triggers, s.Trigger)
	switch {
	case !wanted && held:
		return o.remove(now, func(h *pb.LedgerHold) bool { return h.Trigger == s.Trigger })
	case !wanted || !s.Seen:
		changed = o.mute(s.Trigger, false)
	}
	switch {
	case !wanted || slices.Contains(o.ledger.Muted, s.Trigger):
	case s.Seen && !held:
		o.place(&pb.LedgerHold{Trigger: s.Trigger, By: s.By, Detail: s.Detail}, o.Notice(), 0, now)
		return true
	case s.Seen:
		delete(o.quiet, s.Trigger)
	case held && o.quietFor(s.Trigger, now) >= cmp.Or(time.Duration(o.ledger.Rules.QuietS)*time.Second, defaultQuiet):
		return o.remove(now, func(h *pb.LedgerHold) bool { return h.Trigger == s.Trigger })
	}
	return changed
}

// quietFor is for how long the trigger of a hold has not been seen.
func (o *Owner) quietFor(trigger pb.ReclaimTrigger, now Time) time.Duration {
	since, was := o.quiet[trigger]
	if !was {
		o.quiet[trigger] = now.Boot
		return 0
	}
	return now.Boot - since
}

// mute has a trigger ignored until it has been quiet once, or no longer. It answers
// whether that is new.
func (o *Owner) mute(trigger pb.ReclaimTrigger, muted bool) (changed bool) {
	at, was := slices.BinarySearch(o.ledger.Muted, trigger)
	switch {
	case was == muted:
		return false
	case muted:
		o.ledger.Muted = slices.Insert(o.ledger.Muted, at, trigger)
	default:
		o.ledger.Muted = slices.Delete(o.ledger.Muted, at, at+1)
	}
	return true
}

// Watches says whether the owner wants a trigger looked for, or has a hold by it.
func (o *Owner) Watches(trigger pb.ReclaimTrigger) bool {
	_, held := o.find(trigger)
	return held || slices.Contains(o.ledger.Rules.Triggers, trigger)
}

// clip makes a text of what may be any bytes, and bounds it.
func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxTextBytes)], "?")
}
