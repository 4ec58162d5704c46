package state

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Reservation keeps nodes for the jobs of some users or accounts for a time
// (scontrol(1), "RESERVATIONS"). Jobs that may use it and name it run there while it
// lasts. Others do not start there if they could run into it; none is ended for it. A
// stored one is never changed.
type Reservation struct {
	Name string `cbor:"1,keyasint"`
	// Of one that repeats, these are of the present or next time: see EndReservations.
	StartMS   int64                `cbor:"2,keyasint"`
	EndMS     int64                `cbor:"3,keyasint"`
	Repeat    pb.ReservationRepeat `cbor:"4,keyasint,omitempty"`
	Partition string               `cbor:"5,keyasint,omitempty"` // whose nodes were chosen from
	Nodes     []string             `cbor:"6,keyasint"`           // ascending
	// Whose jobs may use it; with Not, everybody else's. Both ascending.
	Users       []string             `cbor:"7,keyasint,omitempty"`
	NotUsers    bool                 `cbor:"8,keyasint,omitempty"`
	Accounts    []string             `cbor:"9,keyasint,omitempty"` // with those below them
	NotAccounts bool                 `cbor:"10,keyasint,omitempty"`
	Flags       []pb.ReservationFlag `cbor:"11,keyasint,omitempty"` // ascending
	By          string               `cbor:"20,keyasint,omitempty"`
	AtMS        int64                `cbor:"21,keyasint"`
}

// Bounds of reservations.
const (
	MaxReservations       = 4_096
	MaxJobReservations    = 16 // that one job names
	maxReservationNames   = 1_024
	maxReservationAheadMS = 10 * 366 * 24 * 3600 * 1000
)

// Reservations are all, ascending by name.
func (t *tables) Reservations() iter.Seq[*Reservation] {
	return func(yield func(*Reservation) bool) {
		t.reservations.Scan(func(_ string, r *Reservation) bool { return yield(r) })
	}
}

// Reservation finds one by its name.
func (t *tables) Reservation(name string) (*Reservation, bool) { return t.reservations.Get(name) }

// ReservationsChangeMS is when the next reservation begins or ends after a time; 0 =
// none does. What may start where is another question then.
func (t *tables) ReservationsChangeMS(nowMS int64) int64 {
	next := int64(0)
	for r := range t.Reservations() {
		for _, at := range []int64{r.StartMS, r.EndMS} {
			if at > nowMS && (next == 0 || at < next) {
				next = at
			}
		}
	}
	return next
}

func (r *Reservation) has(flag pb.ReservationFlag) bool { return slices.Contains(r.Flags, flag) }

// hasNode reports whether a node belongs to it.
func (r *Reservation) hasNode(name string) bool {
	_, is := slices.BinarySearch(r.Nodes, name)
	return is
}

// active reports whether it is in force at a time.
func (r *Reservation) active(nowMS int64) bool { return r.StartMS <= nowMS && nowMS < r.EndMS }

// meets reports whether it is in force at some moment of a span of time.
func (r *Reservation) meets(fromMS, untilMS int64) bool {
	return r.StartMS < untilMS && fromMS < r.EndMS
}

// yields reports whether it may be on nodes of others, whose jobs are kept from them.
func (r *Reservation) yields() bool {
	return r.has(pb.ReservationFlag_RESERVATION_FLAG_MAINT) || r.has(pb.ReservationFlag_RESERVATION_FLAG_OVERLAP)
}

// mayReserved reports whether jobs of a user that are charged to an association may use a
// reservation. Where users and accounts are named, either will do.
func (t *tables) mayReserved(r *Reservation, user string, association uint32) bool {
	if len(r.Users) > 0 && slices.Contains(r.Users, user) != r.NotUsers {
		return true
	}
	if len(r.Accounts) == 0 {
		return false
	}
	charged, known := t.Association(association)
	if !known {
		return false
	}
	below := slices.ContainsFunc(r.Accounts, func(name string) bool { return t.IsBelow(charged.Account, name) })
	return below != r.NotAccounts
}

// check says what is wrong with a reservation by itself, and what to type instead.
func (r *Reservation) check(nowMS int64) *Refusal {
	switch {
	case !bounds.ValidName(r.Name):
		return refuse(Invalid, "reservation name %s: use letters, digits, '-', '_' and '.'", bounds.Quoted(r.Name))
	case r.StartMS <= 0 || r.EndMS <= r.StartMS:
		return refuse(Invalid, "Invalid time specified: a reservation ends after its start; give Duration=1:00:00, or an EndTime after the StartTime")
	case r.EndMS > nowMS+maxReservationAheadMS:
		return refuse(Invalid, "Invalid time specified: a reservation ends within ten years; one that comes again and again has Flags=DAILY or WEEKLY")
	case len(r.Nodes) == 0:
		return refuse(Invalid, "it has no nodes: give Nodes=LIST, Nodes=ALL, NodeCnt=N or TRES=gres/gpu=N")
	case len(r.Nodes) > bounds.MaxNodesPerCommand:
		return refuse(Exhausted, "%d nodes are too many: at most %d", len(r.Nodes), bounds.MaxNodesPerCommand)
	case len(r.Users)+len(r.Accounts) == 0:
		return refuse(Invalid, "nobody could use it: give Users=NAME,… or Accounts=NAME,…")
	case len(r.Users)+len(r.Accounts) > maxReservationNames:
		return refuse(Exhausted, "%d users and accounts are too many: at most %d", len(r.Users)+len(r.Accounts), maxReservationNames)
	case r.stepMS() > 0 && r.EndMS-r.StartMS > r.stepMS():
		return refuse(Invalid, "Invalid time specified: it would begin again before it ends: give a shorter Duration, or other Flags")
	case len(r.By) > bounds.MaxNameBytes || len(r.Partition) > bounds.MaxNameBytes:
		return refuse(Invalid, "a name is longer than %d bytes", bounds.MaxNameBytes)
	}
	for _, flag := range r.Flags {
		if _, known := pb.ReservationFlag_name[int32(flag)]; !known || flag == 0 {
			return refuse(Invalid, "flag %d of a reservation is not known: use a gcontrol of the controllers' version", flag)
		}
	}
	if _, known := pb.ReservationRepeat_name[int32(r.Repeat)]; !known {
		return refuse(Invalid, "repetition %d of a reservation is not known: use a gcontrol of the controllers' version", r.Repeat)
	}
	for _, name := range slices.Concat(r.Users, r.Accounts) {
		if name == "" || len(name) > bounds.MaxNameBytes || !bounds.ValidText(name) {
			return refuse(Invalid, "%s is not a user or an account", bounds.Quoted(name))
		}
	}
	return nil
}

// repeats reports whether it begins again after its end.
func (r *Reservation) repeats() bool {
	return r.Repeat != pb.ReservationRepeat_RESERVATION_REPEAT_NEVER
}

// stepMS is how long it takes at least until it begins again; 0 = it does not.
func (r *Reservation) stepMS() int64 {
	const hour = 3600 * 1000
	switch r.Repeat {
	case pb.ReservationRepeat_RESERVATION_REPEAT_HOURLY:
		return hour
	case pb.ReservationRepeat_RESERVATION_REPEAT_DAILY, pb.ReservationRepeat_RESERVATION_REPEAT_WEEKDAY, pb.ReservationRepeat_RESERVATION_REPEAT_WEEKEND:
		return 23 * hour // a day when clocks are put forward
	case pb.ReservationRepeat_RESERVATION_REPEAT_WEEKLY:
		return (7*24 - 1) * hour
	}
	return 0
}

// checkReservations says what is wrong with the records.
func (t *tables) checkReservations() error {
	for r := range t.Reservations() {
		if refused := r.check(r.AtMS); refused != nil {
			return fmt.Errorf("reservation %s: %s", r.Name, refused.Message)
		}
		if !slices.IsSorted(r.Nodes) || !slices.IsSorted(r.Users) || !slices.IsSorted(r.Accounts) || !slices.IsSorted(r.Flags) {
			return fmt.Errorf("reservation %s: a list is not ascending", r.Name)
		}
	}
	return nil
}

func (s *State) restoreReservation(r *Reservation) error {
	if _, twice := s.reservations.Get(r.Name); twice {
		return fmt.Errorf("reservation %s is there twice", r.Name)
	}
	s.reservations.Set(r.Name, r)
	return s.checkReservations()
}

// ReservationMessage is a reservation as clients see it at a time.
func (t *tables) ReservationMessage(r *Reservation, nowMS int64) *pb.Reservation {
	message := &pb.Reservation{
		Name: r.Name, StartMs: r.StartMS, EndMs: r.EndMS, Nodes: spec.FormatHostList(r.Nodes), Partition: r.Partition,
		Users: r.Users, NotUsers: r.NotUsers, Accounts: r.Accounts, NotAccounts: r.NotAccounts, Flags: r.Flags, Repeat: r.Repeat,
		By: r.By, AtMs: r.AtMS, NodeCount: uint32(len(r.Nodes)), Active: r.active(nowMS),
	}
	for _, name := range r.Nodes {
		if node, known := t.nodes.Get(name); known && node.Inventory != nil {
			message.CpuCount += node.Inventory.CPUs
			message.GpuCount += node.wholeGPUs()
		}
	}
	return message
}

// ReservationFromMessage is a reservation as a client gives it, with the nodes that it
// names. The commands check it.
func ReservationFromMessage(m *pb.Reservation, nodes []string) Reservation {
	return Reservation{
		Name: m.GetName(), StartMS: m.GetStartMs(), EndMS: m.GetEndMs(), Repeat: m.GetRepeat(), Partition: m.GetPartition(),
		Nodes: sortedSet(nodes), Users: sortedSet(m.GetUsers()), NotUsers: m.GetNotUsers(), Accounts: sortedSet(m.GetAccounts()), NotAccounts: m.GetNotAccounts(),
		Flags: sortedSet(m.GetFlags()),
	}
}

// tellReservation fills in which reservation holds on a node now: one for maintenance
// before others.
func (t *tables) tellReservation(message *pb.Node) {
	for r := range t.Reservations() {
		if !r.active(t.timeMS) || !r.hasNode(message.Name) || message.Maintenance {
			continue
		}
		maintenance := r.has(pb.ReservationFlag_RESERVATION_FLAG_MAINT)
		if message.Reservation == "" || maintenance {
			message.Reservation, message.Maintenance = r.Name, maintenance
		}
	}
}

// overlapping are the reservations that have a node in common with another one at some
// time, ascending by name.
func (t *tables) overlapping(wanted *Reservation) iter.Seq[*Reservation] {
	return func(yield func(*Reservation) bool) {
		for r := range t.Reservations() {
			if r.Name != wanted.Name && r.meets(wanted.StartMS, wanted.EndMS) && slices.ContainsFunc(wanted.Nodes, r.hasNode) && !yield(r) {
				return
			}
		}
	}
}

// freeName is a name for a reservation without one: that of its first user or account,
// and a number.
func (t *tables) freeName(r *Reservation) string {
	first := "resv"
	if names := slices.Concat(r.Users, r.Accounts); len(names) > 0 {
		first = names[0]
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s_%d", first, n)
		if _, taken := t.reservations.Get(name); !taken {
			return name
		}
	}
}

// reservationsText is the names of reservations as a job gives them.
func reservationsText(names []string) string { return strings.Join(names, ",") }
