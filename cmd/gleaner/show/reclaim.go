package show

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file shows what an owner has taken back: when the hardware of a node is the
// owner's, and what becomes of the guests.

// ReclaimProgress is how far a reclaim is, by the controllers' clock.
type ReclaimProgress struct {
	PromiseMS int64 // from the command to the deadline
	Guests    int
	Open      int   // guests that hold hardware
	FreeMS    int64 // from the command until the last guest so far had left
	Kept      bool  // nobody is open, and nobody left too late
}

// ReclaimProgressOf sums up the guests of a reclaim.
func ReclaimProgressOf(reclaim *pb.Reclaim) ReclaimProgress {
	p := ReclaimProgress{PromiseMS: max(reclaim.GetDeadlineMs()-reclaim.GetAtMs(), 0), Guests: len(reclaim.GetGuests())}
	late := false
	for _, guest := range reclaim.GetGuests() {
		if guest.GetFreedMs() == 0 {
			p.Open++
			continue
		}
		p.FreeMS = max(p.FreeMS, guest.GetFreedMs()-reclaim.GetAtMs())
		late = late || guest.GetFreedMs() > reclaim.GetDeadlineMs()
	}
	p.Kept = p.Open == 0 && !late
	return p
}

// WaitText is a short time: "0.21 s", "75.00 s".
func WaitText(ms int64) string {
	ms = max(ms, 0)
	return fmt.Sprintf("%d.%02d s", ms/1000, ms%1000/10)
}

// PromiseText is how long a promise was: "1m", or "2.21 s" where a later command brought the
// deadline forward.
func PromiseText(ms int64) string {
	if ms%1000 != 0 {
		return WaitText(ms)
	}
	return spec.FormatDuration(uint32(min(max(ms/1000, 0), int64(spec.Unlimited)-1)))
}

// fateWord is what a reclaim does with a guest, in records and JSON: PARK.
func fateWord(fate pb.GuestFate) string {
	return strings.TrimPrefix(fate.String(), "GUEST_FATE_")
}

// fateText is what happens to a guest, as a sentence without its subject.
func fateText(guest *pb.ReclaimedGuest) string {
	switch guest.GetFate() {
	case pb.GuestFate_GUEST_FATE_PARK:
		return "is parked: frozen, and its hardware is free"
	case pb.GuestFate_GUEST_FATE_REQUEUE:
		return "ends, and waits again"
	case pb.GuestFate_GUEST_FATE_CANCEL:
		return "ends, and may not be requeued"
	case pb.GuestFate_GUEST_FATE_ENDING:
		return "is ending already"
	}
	return "is told to leave"
}

// GuestLeft is how a guest left, and when.
func GuestLeft(guest *pb.ReclaimedGuest, reclaim *pb.Reclaim) string {
	how := "left" // it ends, or was parked before it was told to end
	if guest.GetFate() == pb.GuestFate_GUEST_FATE_PARK {
		how = "was parked"
	}
	text := how + " after " + WaitText(guest.GetFreedMs()-reclaim.GetAtMs())
	if guest.GetDetail() != "" {
		text += ": " + guest.GetDetail()
	}
	return text
}

// GuestName is the number of a guest's job; "-" = it is hidden.
func GuestName(guest *pb.ReclaimedGuest) string {
	if guest.GetId().GetJob() == 0 {
		return "-"
	}
	return spec.FormatJobID(guest.GetId())
}

// GuestText names a guest in a sentence: "job 101 (ada)".
func GuestText(guest *pb.ReclaimedGuest) string {
	if guest.GetId().GetJob() == 0 {
		return "another user's job"
	}
	return fmt.Sprintf("job %s (%s)", GuestName(guest), format.Printable(cmp.Or(guest.GetUser(), "unknown")))
}

// GuestRow is a guest in the table of greclaim.
type GuestRow struct {
	Node    string
	Reclaim *pb.Reclaim
	Guest   *pb.ReclaimedGuest
	View    *View
}

// GuestTable is what can be shown of guests.
var GuestTable = format.NewTable([]format.Field[*GuestRow]{
	guestField('N', "NODE", func(r *GuestRow) string { return r.Node }),
	guestField('i', "JOBID", func(r *GuestRow) string { return GuestName(r.Guest) }),
	guestField('j', "NAME", func(r *GuestRow) string { return cmp.Or(r.Guest.GetName(), "-") }),
	guestField('u', "USER", func(r *GuestRow) string { return cmp.Or(r.Guest.GetUser(), "-") }),
	guestField('a', "ACCOUNT", func(r *GuestRow) string { return cmp.Or(r.Guest.GetAccount(), "-") }),
	guestField('C', "CPUS", func(r *GuestRow) string { return Digits(r.Guest.GetCpus()) }),
	guestField('G', "GPUS", func(r *GuestRow) string { return Digits(r.Guest.GetGpus()) }),
	guestField('m', "MEMORY", func(r *GuestRow) string { return r.View.memory(r.Guest.GetMemoryBytes()) }),
	guestField('b', "BOUND", func(r *GuestRow) string { return parkBound(r.Guest.GetParkBoundMs()) }),
	guestField('d', "BY", func(r *GuestRow) string { return r.View.Stamp(r.Reclaim.GetDeadlineMs(), "Unknown") }),
	guestField('f', "WHAT HAPPENS", func(r *GuestRow) string {
		switch {
		case r.Guest.GetFreedMs() != 0:
			return GuestLeft(r.Guest, r.Reclaim)
		case r.Guest.GetDetail() == "":
			return fateText(r.Guest)
		}
		return fateText(r.Guest) + ": " + r.Guest.GetDetail()
	}),
})

func guestField(letter byte, header string, value func(*GuestRow) string) format.Field[*GuestRow] {
	return format.Field[*GuestRow]{Letter: letter, Names: []string{header}, Header: header, Value: value}
}

// nodeReclaim adds the reclaim of a node to its record.
func nodeReclaim(r *Record, node *pb.Node, view *View) {
	reclaim := node.GetReclaim()
	if reclaim == nil {
		return
	}
	progress := ReclaimProgressOf(reclaim)
	free := "No"
	if progress.Open == 0 {
		free = "Yes"
	}
	r.Line(Item("Reclaim", Digits(reclaim.Number)), Item("ReclaimedBy", ReclaimedBy(reclaim)), Item("ReclaimTime", view.Stamp(reclaim.AtMs, "Unknown")),
		Item("ReclaimDeadline", view.Stamp(reclaim.DeadlineMs, "Unknown")), Item("ReclaimUntil", view.Stamp(reclaim.UntilMs, "Released")),
		Item("KillGuests", yesNo(reclaim.Kill)))
	if gres := reclaimedGres(node); gres != "" {
		r.Line(Item("ReclaimedGres", gres))
	}
	r.Line(Item("GuestsLeft", Digits(progress.Guests-progress.Open)+"/"+Digits(progress.Guests)), Item("HardwareFree", free),
		Item("HardwareFreeAfter", WaitText(progress.FreeMS)), Item("Promise", PromiseText(progress.PromiseMS)))
	for _, hold := range reclaim.Holds {
		items := []string{Item("Hold", triggerWord(hold.Trigger)), Item("HeldBy", cmp.Or(hold.By, "(null)")), Item("HeldSince", view.Stamp(hold.SinceMs, "Unknown")), Item("HeldUntil", view.Stamp(hold.UntilMs, "Released"))}
		if hold.Detail != "" {
			items = append(items, Item("Detail", hold.Detail))
		}
		r.Line(items...)
	}
	for _, guest := range reclaim.Guests {
		items := []string{Item("Guest", GuestName(guest)), Item("GuestUser", cmp.Or(guest.User, "(null)")), Item("Fate", fateWord(guest.Fate)), Item("Left", view.Stamp(guest.FreedMs, "No"))}
		items = append(items, Item("ParkBound", parkBound(guest.ParkBoundMs)))
		if guest.Detail != "" {
			items = append(items, Item("Detail", guest.Detail))
		}
		r.Line(items...)
	}
}

// parkBound is how long parking a guest takes at most: "0.25s", "NONE" where nobody can say.
func parkBound(ms uint32) string {
	if ms == 0 {
		return "NONE"
	}
	return strconv.FormatFloat(float64(ms)/1000, 'g', 3, 64) + "s"
}

// ReclaimJSON is a reclaim as JSON.
type ReclaimJSON struct {
	Node        string      `json:"node"`
	Number      uint32      `json:"number"`
	By          string      `json:"by"`
	AtMs        int64       `json:"at_ms"`
	DeadlineMs  int64       `json:"deadline_ms"`
	UntilMs     int64       `json:"until_ms"` // 0 = until it is released
	Kill        bool        `json:"kill"`
	PromiseMs   int64       `json:"promise_ms"`
	Free        bool        `json:"free"`          // all hardware is the owner's
	FreeAfterMs int64       `json:"free_after_ms"` // when the last guest so far had left
	Kept        bool        `json:"kept"`          // and nobody left after the deadline
	Guests      []GuestJSON `json:"guests"`
	Holds       []HoldJSON  `json:"holds"`             // it lasts until none is left
	Devices     []string    `json:"devices,omitempty"` // all that is taken back; none = all of the node is
}

// GuestJSON is a guest of a reclaim as JSON.
type GuestJSON struct {
	Job         string `json:"job"` // "" = it is hidden
	JobID       uint32 `json:"job_id"`
	Name        string `json:"name"`
	UserName    string `json:"user_name"`
	Account     string `json:"account"`
	Cpus        uint32 `json:"cpus"`
	Gpus        uint32 `json:"gpus"`
	MemoryBytes uint64 `json:"memory_bytes"`
	Fate        string `json:"fate"`
	FreedMs     int64  `json:"freed_ms"`      // 0 = it holds hardware
	ParkBoundMs uint32 `json:"park_bound_ms"` // 0 = nobody can say
	NodeTookMs  uint32 `json:"node_took_ms"`  // what its node has measured; 0 = it has not said
	NodeLateMs  uint32 `json:"node_late_ms"`  // by how much later than the deadline that was
	Detail      string `json:"detail,omitempty"`
}

// ReclaimJSONOf is the reclaim of a node as JSON; nil without one.
func ReclaimJSONOf(node string, reclaim *pb.Reclaim) *ReclaimJSON {
	if reclaim == nil {
		return nil
	}
	progress := ReclaimProgressOf(reclaim)
	record := &ReclaimJSON{
		Node: node, Number: reclaim.Number, By: reclaim.By, AtMs: reclaim.AtMs, DeadlineMs: reclaim.DeadlineMs, UntilMs: reclaim.UntilMs, Kill: reclaim.Kill,
		PromiseMs: progress.PromiseMS, Free: progress.Open == 0, FreeAfterMs: progress.FreeMS, Kept: progress.Kept, Guests: []GuestJSON{}, Holds: holdsJSON(reclaim.Holds),
		Devices: reclaim.Devices,
	}
	for _, guest := range reclaim.Guests {
		record.Guests = append(record.Guests, GuestJSON{
			Job: strings.TrimPrefix(GuestName(guest), "-"), JobID: guest.Job, Name: guest.Name, UserName: guest.User, Account: guest.Account,
			Cpus: guest.Cpus, Gpus: guest.Gpus, MemoryBytes: guest.MemoryBytes, Fate: fateWord(guest.Fate), FreedMs: guest.FreedMs, Detail: guest.Detail, ParkBoundMs: guest.ParkBoundMs,
			NodeTookMs: guest.NodeTookMs, NodeLateMs: guest.NodeLateMs,
		})
	}
	return record
}

// SortNodes sorts nodes as ginfo does: n2 before n10.
func SortNodes(nodes []*pb.Node) {
	slices.SortStableFunc(nodes, func(a, b *pb.Node) int { return cmp.Compare(NaturalKey(a.Name), NaturalKey(b.Name)) })
}
