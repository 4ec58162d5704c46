package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file keeps the record of owners, by day: what became of the promises that
// reclaims make, what guests had on their nodes, and what their jobs had on the nodes of
// others. A run counts when it is charged (chargeUsage), on the day when that is, for
// whoever owns the nodes then.

// OwnerDay is what one owner has of one day. A stored one is never changed.
type OwnerDay struct {
	Owner string `cbor:"1,keyasint"`
	Day   int64  `cbor:"2,keyasint"` // since 1970, in UTC; 0 = all that is older than the others
	// Kept are the promises by which all hardware was free in time, and Early those of
	// reclaims that were over before that mattered.
	Kept   uint32         `cbor:"3,keyasint,omitempty"`
	Early  uint32         `cbor:"4,keyasint,omitempty"`
	Missed []MissedReason `cbor:"5,keyasint,omitempty"` // ascending by cause
	Uses   []OwnerUse     `cbor:"6,keyasint,omitempty"` // ascending
}

// MissedReason counts promises that were missed for one cause.
type MissedReason struct {
	Cause string `cbor:"1,keyasint"`
	Count uint32 `cbor:"2,keyasint"`
}

// Causes of missed promises.
const (
	missedLate   = "a guest left after the deadline"
	missedSilent = "the node did not respond"
	missedHeld   = "the node did not say that a guest has left"
	missedLeft   = "the node could not clean up after a guest"
)

// OwnerUse is what jobs of one account had, of one model of GPU, or without GPUs.
type OwnerUse struct {
	Borrowed bool   `cbor:"1,keyasint,omitempty"` // from other owners; or else they are guests
	Account  string `cbor:"2,keyasint,omitempty"` // "" = charged to nobody; see otherAccounts
	Model    string `cbor:"3,keyasint,omitempty"`
	GPUMS    uint64 `cbor:"4,keyasint,omitempty"` // milliseconds times GPUs
	CPUMS    uint64 `cbor:"5,keyasint,omitempty"`
	Billed   uint64 `cbor:"6,keyasint,omitempty"` // in millionths
}

// Bounds of the record: days of an owner, and rows of a day. The rest is summed up.
const (
	maxOwnerDays = 400
	maxOwnerUses = 512
	otherUsers   = "(others)"
	dayMS        = 24 * 3600 * 1000
)

func (u *OwnerUse) compare(other *OwnerUse) int {
	borrowed := 0
	if u.Borrowed != other.Borrowed {
		borrowed = -1
		if u.Borrowed {
			borrowed = 1
		}
	}
	return cmp.Or(borrowed, cmp.Compare(u.Account, other.Account), cmp.Compare(u.Model, other.Model))
}

func ownerDayKey(owner string, day int64) string { return fmt.Sprintf("%s\x00%019d", owner, day) }

// changeOwnerDay changes the record of an owner of today.
func (s *State) changeOwnerDay(owner string, change func(*OwnerDay)) {
	if owner == "" {
		return
	}
	key := ownerDayKey(owner, max(s.timeMS/dayMS, 1))
	next := OwnerDay{Owner: owner, Day: max(s.timeMS/dayMS, 1)}
	old, known := s.ownerDays.Get(key)
	if known {
		next = *old
	}
	change(&next)
	s.ownerDays.Set(key, &next)
	if !known {
		s.foldOwnerDays(owner)
	}
}

// foldOwnerDays sums up the oldest days of an owner who has too many.
func (s *State) foldOwnerDays(owner string) {
	var days []*OwnerDay
	s.ownerDays.Ascend(ownerDayKey(owner, 0), func(_ string, d *OwnerDay) bool {
		if d.Owner == owner {
			days = append(days, d)
		}
		return d.Owner == owner
	})
	if len(days) <= maxOwnerDays {
		return
	}
	sum := OwnerDay{Owner: owner}
	for _, d := range days[:len(days)-maxOwnerDays+1] {
		sum = sum.plus(d)
		s.ownerDays.Delete(ownerDayKey(owner, d.Day))
	}
	s.ownerDays.Set(ownerDayKey(owner, 0), &sum)
}

// plus is the record of a day with another one added.
func (d OwnerDay) plus(more *OwnerDay) OwnerDay {
	d.Kept, d.Early = sumOf(d.Kept, more.Kept), sumOf(d.Early, more.Early)
	for _, m := range more.Missed {
		d.addMissed(m.Cause, m.Count)
	}
	for i := range more.Uses {
		d.addUse(&more.Uses[i])
	}
	return d
}

func sumOf(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), math.MaxUint32)) }

func sum64(a, b uint64) uint64 { return a + min(b, math.MaxInt64-min(a, math.MaxInt64)) }

func (d *OwnerDay) addMissed(cause string, count uint32) {
	at, found := slices.BinarySearchFunc(d.Missed, cause, func(m MissedReason, cause string) int { return cmp.Compare(m.Cause, cause) })
	d.Missed = slices.Clone(d.Missed)
	if !found {
		d.Missed = slices.Insert(d.Missed, at, MissedReason{Cause: cause})
	}
	d.Missed[at].Count = sumOf(d.Missed[at].Count, count)
}

func (d *OwnerDay) addUse(use *OwnerUse) {
	one := *use
	at, found := slices.BinarySearchFunc(d.Uses, &one, func(u OwnerUse, one *OwnerUse) int { return u.compare(one) })
	if !found && len(d.Uses) >= maxOwnerUses {
		one.Account, one.Model = otherUsers, ""
		at, found = slices.BinarySearchFunc(d.Uses, &one, func(u OwnerUse, one *OwnerUse) int { return u.compare(one) })
	}
	d.Uses = slices.Clone(d.Uses)
	if !found {
		d.Uses = slices.Insert(d.Uses, at, OwnerUse{Borrowed: one.Borrowed, Account: one.Account, Model: one.Model})
	}
	u := &d.Uses[at]
	u.GPUMS, u.CPUMS, u.Billed = sum64(u.GPUMS, one.GPUMS), sum64(u.CPUMS, one.CPUMS), sum64(u.Billed, one.Billed)
}

// noteOwners adds to the records of owners what a run has had since it was last charged.
func (s *State) noteOwners(job *Job) {
	if len(s.policy.Owners) == 0 {
		return
	}
	s.ownersUses(job, s.timeMS, func(owner string, use *OwnerUse) {
		s.changeOwnerDay(owner, func(d *OwnerDay) { d.addUse(use) })
	})
}

// ownersUses is what a run has had since it was last charged on nodes of others than its
// own, for both sides. A parked run has nothing.
func (t *tables) ownersUses(job *Job, nowMS int64, add func(owner string, use *OwnerUse)) {
	run := job.Run
	elapsed := uint64(max(nowMS-run.chargedMS(), 0))
	if elapsed == 0 || run.Suspension != nil && (run.Suspension.Reclaim != 0 || run.Suspension.Owner) {
		return
	}
	account := ""
	if association, known := t.Association(job.Association); known {
		account = association.Account
	}
	billed := uint64(times(run.billing(), int64(elapsed), 1000)) / uint64(max(len(run.Allocs), 1))
	for i := range run.Allocs {
		alloc := &run.Allocs[i]
		lender := t.policy.OwnerOf(alloc.Node)
		if lender == "" || t.OwnersJob(job, alloc.Node) {
			continue
		}
		use := OwnerUse{Account: account, GPUMS: uint64(len(alloc.Devices)) * elapsed, Billed: billed}
		if len(alloc.Devices) > 0 {
			use.Model = alloc.Devices[0].Model
		}
		if run.Suspension == nil {
			use.CPUMS = uint64(len(alloc.CPUs)) * elapsed
		}
		add(lender, &use)
		if borrower := t.ownerAbove(account); borrower != "" {
			use.Borrowed, use.Account = true, lender
			add(borrower, &use)
		}
	}
}

// ownerAbove is the first of an account and those above it that owns nodes; "" = none does.
func (t *tables) ownerAbove(account string) string {
	for range bounds.MaxAccountDepth + 1 {
		record, known := t.Account(account)
		switch {
		case !known || account == policy.RootAccount:
			return ""
		case t.policy.IsOwner(account):
			return account
		}
		account = record.Parent
	}
	return ""
}

// notePromise adds to the record of a node's owner what became of the promise of a reclaim
// that is over.
func (s *State) notePromise(node *Node, reclaim *Reclaim) {
	s.changeOwnerDay(s.policy.OwnerOf(node.Name), func(d *OwnerDay) {
		switch cause := reclaim.missed(node, s.timeMS); cause {
		case "":
			d.Kept = sumOf(d.Kept, 1)
		case releasedEarly:
			d.Early = sumOf(d.Early, 1)
		default:
			d.addMissed(cause, 1)
		}
	})
}

const releasedEarly = "released early"

// missed says why the promise of a reclaim was not kept; "" = it was.
func (r *Reclaim) missed(node *Node, nowMS int64) string {
	late, open := false, false
	for i := range r.Guests {
		open = open || r.Guests[i].FreedMS == 0
		late = late || r.Guests[i].FreedMS > r.DeadlineMS
	}
	switch {
	case late:
		return missedLate
	case !open:
		return ""
	case nowMS <= r.DeadlineMS:
		return releasedEarly
	case node.NotResponding:
		return missedSilent
	case len(node.LeftOvers) > 0:
		return missedLeft
	}
	return missedHeld
}

func (s *State) restoreOwnerDay(d *OwnerDay) error {
	key := ownerDayKey(d.Owner, d.Day)
	if _, known := s.ownerDays.Get(key); known {
		return fmt.Errorf("day %d of owner %s is there twice", d.Day, d.Owner)
	}
	s.ownerDays.Set(key, d)
	return nil
}

// checkOwnerDays says what is wrong with the records of owners.
func (t *tables) checkOwnerDays() error {
	var err error
	days := map[string]int{}
	t.ownerDays.Scan(func(key string, d *OwnerDay) bool {
		days[d.Owner]++
		ordered := slices.IsSortedFunc(d.Uses, func(a, b OwnerUse) int { return a.compare(&b) })
		if key != ownerDayKey(d.Owner, d.Day) || d.Owner == "" || d.Day < 0 || days[d.Owner] > maxOwnerDays || !ordered || len(d.Uses) > maxOwnerUses+2 {
			err = fmt.Errorf("day %d of owner %q: %d days, %d rows in order: %v", d.Day, d.Owner, days[d.Owner], len(d.Uses), ordered)
		}
		return err == nil
	})
	return err
}

// OwnerReport is the record of an owner between two times, with what runs now.
func (v *View) OwnerReport(owner string, sinceMS, untilMS, nowMS int64) *pb.OwnerReport {
	sum := OwnerDay{Owner: owner}
	v.ownerDays.Ascend(ownerDayKey(owner, 0), func(_ string, d *OwnerDay) bool {
		if d.Owner == owner && (d.Day+1)*dayMS > sinceMS && d.Day*dayMS < untilMS {
			sum = sum.plus(d)
		}
		return d.Owner == owner
	})
	nowMS = max(nowMS, v.timeMS)
	open := uint32(0)
	if sinceMS <= nowMS && nowMS <= untilMS {
		for job := range v.LiveJobs() {
			if job.HoldsNodes() {
				v.ownersUses(job, nowMS, func(of string, use *OwnerUse) {
					if of == owner {
						sum.addUse(use)
					}
				})
			}
		}
		v.reclaimed.Scan(func(name string, _ struct{}) bool {
			if v.policy.OwnerOf(name) == owner {
				open++
			}
			return true
		})
	}
	return sum.message(open)
}

func (d *OwnerDay) message(open uint32) *pb.OwnerReport {
	report := &pb.OwnerReport{Owner: d.Owner, Kept: d.Kept, Early: d.Early, Open: open}
	for _, m := range d.Missed {
		report.Missed = append(report.Missed, &pb.MissedPromises{Cause: m.Cause, Count: m.Count})
	}
	for i := range d.Uses {
		u := &d.Uses[i]
		row := &pb.OwnerUse{Account: u.Account, Model: u.Model, GpuMs: u.GPUMS, CpuMs: u.CPUMS, Billed: u.Billed / 1_000_000}
		if u.Borrowed {
			report.Borrowed = append(report.Borrowed, row)
		} else {
			report.Lent = append(report.Lent, row)
		}
	}
	return report
}

// OwnersOf are the accounts that own nodes and that somebody coordinates, ascending; with
// privileged all that own nodes.
func (v *View) OwnersOf(coordinator string, privileged bool) []string {
	var owners []string
	for i := range v.policy.Owners {
		if name := v.policy.Owners[i].Account; privileged || v.coordinatesAccount(coordinator, name) {
			owners = append(owners, name)
		}
	}
	return owners
}
