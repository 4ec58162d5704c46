// Package owner decides what a node does for its owner by itself: whose jobs are guests,
// who may take the node back there, and which holds it has.
//
// Contract: pure. There is no clock, no lock, no goroutine and no I/O in here. The caller
// (noded) says what happened and what time it is, keeps what Ledger answers on its disk,
// and does with the guests what Held and Deadline say. What the package promises then: a
// hold that was placed on the node lasts until somebody ends it, its time is over, or its
// trigger has been quiet; a restart of the daemon or of the machine, and a clock that is
// set, end none early; what controllers end is not placed again without a new reason; and
// each change has a higher number than those before it, so that a word that comes late
// undoes nothing. It is not safe for use by several goroutines at once.
package owner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Time is what time it is.
type Time struct {
	Boot   time.Duration // CLOCK_BOOTTIME
	WallMS int64         // Unix milliseconds
}

// Bounds of what is stored and said.
const (
	maxTextBytes = 256
	// maxListed bounds accounts and people: far more than any cluster has.
	maxListed = 100_000
	minWithin = time.Second
	maxWithin = 24 * time.Hour
	maxHeld   = 366 * 24 * time.Hour

	defaultNotice = time.Minute
	defaultQuiet  = 15 * time.Minute
)

var (
	// ErrMayNot is returned when somebody may not command the node.
	ErrMayNot = errors.New("access/permission denied")
	// ErrBad is returned for a request that makes no sense.
	ErrBad = errors.New("invalid request")
)

// Owner is what a node knows of its owner, and what was said there.
type Owner struct {
	ledger   *pb.OwnerLedger // what is kept; never nil
	accounts map[string]bool
	deadline time.Duration // boot time until which guests have to leave
	// quiet is since when the trigger of a hold is no longer seen.
	quiet map[pb.ReclaimTrigger]time.Duration
}

// New takes over what was kept; nil = nothing was. bootID names the present boot. Guests
// that ran under another boot are gone, and so is their deadline.
func New(kept *pb.OwnerLedger, bootID string, now Time) *Owner {
	o := &Owner{ledger: &pb.OwnerLedger{}, quiet: map[pb.ReclaimTrigger]time.Duration{}}
	if kept != nil {
		o.ledger = proto.CloneOf(kept)
	}
	if o.ledger.Rules == nil {
		o.ledger.Rules = &pb.OwnerRules{}
	}
	o.deadline = time.Duration(o.ledger.DeadlineBoottimeNs)
	if o.ledger.BootId != bootID {
		o.deadline, o.ledger.DeadlineBoottimeNs, o.ledger.BeganBoottimeNs = now.Boot, int64(now.Boot), int64(now.Boot)
		for _, h := range o.ledger.Holds {
			if h.UntilMs != 0 {
				h.UntilBoottimeNs = int64(now.Boot) + (h.UntilMs-now.WallMS)*int64(time.Millisecond)
			}
		}
	}
	o.ledger.BootId = bootID
	o.list()
	return o
}

// Ledger is what has to be on the disk before anything is done by it.
func (o *Owner) Ledger() *pb.OwnerLedger { return proto.CloneOf(o.ledger) }

// SetRules takes what controllers say of the owner. It answers whether that is new.
func (o *Owner) SetRules(rules *pb.OwnerRules, now Time) (changed bool) {
	rules = proto.CloneOf(rules)
	rules.Accounts = rules.Accounts[:min(len(rules.Accounts), maxListed)]
	rules.People = rules.People[:min(len(rules.People), maxListed)]
	if proto.Equal(rules, o.ledger.Rules) {
		return false
	}
	o.ledger.Rules = rules
	o.list()
	o.change(now)
	return true
}

func (o *Owner) list() {
	o.accounts = make(map[string]bool, len(o.ledger.Rules.Accounts))
	for _, account := range o.ledger.Rules.Accounts {
		o.accounts[account] = true
	}
}

// Guest says whether an allocation's job is a guest: on a node without an owner each is.
// A job that is charged to nobody is a guest everywhere.
func (o *Owner) Guest(order *pb.StartAlloc) bool {
	return o.ledger.Rules.Owner == "" || order.GetAccount() == "" || !o.accounts[order.GetAccount()]
}

// May says whether a user of this machine may command the node. name is the machine's
// name for the user; "" = it has none.
func (o *Owner) May(uid uint32, name string) error {
	rules := o.ledger.Rules
	_, listed := slices.BinarySearch(rules.People, name)
	switch {
	case uid == 0, name != "" && listed:
		return nil
	case rules.Owner == "":
		return fmt.Errorf("%w: this node has no owner that it knows of, so only root reclaims and releases it here", ErrMayNot)
	}
	return fmt.Errorf("%w: this node belongs to account %s: only root and the coordinators of that account reclaim and release it here (gacctmgr show account %s withcoord)", ErrMayNot, rules.Owner, rules.Owner)
}

// Rules are those that the node was told last. They are only read.
func (o *Owner) Rules() *pb.OwnerRules { return o.ledger.Rules }

// Notice is how long guests have to leave where nobody says.
func (o *Owner) Notice() time.Duration {
	notice := time.Duration(o.ledger.Rules.NoticeMs) * time.Millisecond
	return min(max(cmp.Or(notice, defaultNotice), minWithin), maxWithin)
}

// change gives what has changed a number: higher than the one before and, should what was
// kept be lost, than those that are forgotten.
func (o *Owner) change(now Time) uint64 {
	o.ledger.Number = max(o.ledger.Number+1, uint64(max(now.WallMS, 0)))
	return o.ledger.Number
}

// Raise makes sure that what is said from now on counts for a supervisor that has heard a
// number which is not on the disk: the daemon or the machine died in between.
func (o *Owner) Raise(heard uint64, now Time) (changed bool) {
	if heard <= o.ledger.Number {
		return false
	}
	o.ledger.Number = heard
	o.change(now)
	return true
}

// Number is that of the last change.
func (o *Owner) Number() uint64 { return o.ledger.Number }

// Held says whether the node is held, so that no guest may run there.
func (o *Owner) Held() bool { return len(o.ledger.Holds) > 0 }

// Deadline is by when its guests have to be gone.
func (o *Owner) Deadline() time.Duration { return o.deadline }

// Kill says whether its guests end, and are not parked.
func (o *Owner) Kill() bool {
	return slices.ContainsFunc(o.ledger.Holds, func(h *pb.LedgerHold) bool { return h.Kill })
}

// Tell is what controllers are told; nil when nothing was ever said here.
func (o *Owner) Tell(now Time) *pb.NodeHolds {
	if o.ledger.Number == 0 {
		return nil
	}
	said := &pb.NodeHolds{Number: o.ledger.Number, Released: o.ledger.Released}
	if said.Released != 0 {
		said.ReleasedAgoMs = max(now.WallMS-o.ledger.ReleasedMs, 0)
	}
	for _, h := range o.ledger.Holds {
		told := &pb.NodeHold{
			Trigger: h.Trigger, Number: h.Number, By: h.By, Detail: h.Detail, Kill: h.Kill,
			WithinMs: max((o.deadline - now.Boot).Milliseconds(), 0),
		}
		if h.UntilMs != 0 {
			told.LeftMs = max((time.Duration(h.UntilBoottimeNs) - now.Boot).Milliseconds(), 1)
		}
		said.Holds = append(said.Holds, told)
	}
	return said
}

// millis are a duration's milliseconds, bounded for a message.
func millis(d time.Duration) uint32 {
	return uint32(min(max(d.Milliseconds(), 0), math.MaxUint32))
}
