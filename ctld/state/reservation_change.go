package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// CreateReservation makes a reservation of nodes that the api has chosen or the caller
// named. It is refused if the nodes are not all free for it: see checkReserved.
type CreateReservation struct {
	Reservation Reservation `cbor:"1,keyasint"`
	User        string      `cbor:"2,keyasint,omitempty"`
}

func (CreateReservation) kind() Kind { return KindCreateReservation }
func (c CreateReservation) apply(s *State, result *Result) {
	r := c.Reservation
	if r.Name == "" {
		r.Name = s.freeName(&r)
	}
	r.By, r.AtMS = bounds.Clip(c.User, bounds.MaxNameBytes), s.timeMS
	if _, taken := s.reservations.Get(r.Name); taken {
		result.Refused = refuse(WrongState, "Reservation name %s is already in use: give another ReservationName, or change it with gcontrol update ReservationName=%s", r.Name, r.Name)
		return
	}
	if s.reservations.Len() >= MaxReservations {
		result.Refused = refuse(Exhausted, "there are %d reservations already, and at most %d can be: delete some", s.reservations.Len(), MaxReservations)
		return
	}
	if result.Refused = s.checkReserved(&r, nil); result.Refused != nil {
		return
	}
	s.setReservation(&r)
	result.Reservation = r.Name
}

// UpdateReservation changes the fields of a reservation that are named, as in
// pb.UpdateReservationRequest.
type UpdateReservation struct {
	Reservation Reservation `cbor:"1,keyasint"`
	Fields      []string    `cbor:"2,keyasint"`
	User        string      `cbor:"3,keyasint,omitempty"`
}

// reservationFields are the fields that an update sets, by their names in the message.
var reservationFields = map[string]func(to, from *Reservation){
	"start_ms": func(to, from *Reservation) { to.StartMS = from.StartMS },
	"end_ms":   func(to, from *Reservation) { to.EndMS = from.EndMS },
	"nodes":    func(to, from *Reservation) { to.Nodes = from.Nodes },
	"users":    func(to, from *Reservation) { to.Users, to.NotUsers = from.Users, from.NotUsers },
	"accounts": func(to, from *Reservation) { to.Accounts, to.NotAccounts = from.Accounts, from.NotAccounts },
	"flags":    func(to, from *Reservation) { to.Flags = from.Flags },
	"repeat":   func(to, from *Reservation) { to.Repeat = from.Repeat },
}

func (UpdateReservation) kind() Kind { return KindUpdateReservation }
func (c UpdateReservation) apply(s *State, result *Result) {
	old, known := s.reservations.Get(c.Reservation.Name)
	if !known {
		result.Refused = unknownReservation(c.Reservation.Name)
		return
	}
	next := *old
	for _, field := range c.Fields {
		set, known := reservationFields[field]
		if !known {
			result.Refused = refuse(Invalid, "a reservation has no %s: use a gcontrol of the controllers' version", bounds.Quoted(field))
			return
		}
		set(&next, &c.Reservation)
	}
	next.By, next.AtMS = bounds.Clip(c.User, bounds.MaxNameBytes), s.timeMS
	if result.Refused = s.checkReserved(&next, old); result.Refused != nil {
		return
	}
	s.setReservation(&next)
	result.Reservation = next.Name
}

// DeleteReservation is refused while jobs run in the reservation. Jobs that wait for it
// go on waiting: for one of the same name, or a change.
type DeleteReservation struct {
	Name string `cbor:"1,keyasint"`
}

func (DeleteReservation) kind() Kind { return KindDeleteReservation }
func (c DeleteReservation) apply(s *State, result *Result) {
	if _, known := s.reservations.Get(c.Name); !known {
		result.Refused = unknownReservation(c.Name)
		return
	}
	if job := s.runsIn(c.Name); job != nil {
		result.Refused = refuse(WrongState, "Requested reservation is in use: job %d runs in it; cancel its jobs with gcancel --reservation=%s, or give it another EndTime", job.ID, c.Name)
		return
	}
	s.deleteReservation(c.Name)
	result.Reservation = c.Name
}

// EndReservations ends those whose time is over: one that repeats begins again at the
// times given, by the leader's calendar, and others are forgotten once no job runs in
// them.
type EndReservations struct {
	Ends []ReservationEnd `cbor:"1,keyasint"`
}

// ReservationEnd is one of them. It counts only if the reservation still ends when the
// leader saw it end.
type ReservationEnd struct {
	Name        string `cbor:"1,keyasint"`
	EndMS       int64  `cbor:"2,keyasint"`
	NextStartMS int64  `cbor:"3,keyasint,omitempty"` // 0 = it does not repeat
	NextEndMS   int64  `cbor:"4,keyasint,omitempty"`
}

func (EndReservations) kind() Kind { return KindEndReservations }
func (c EndReservations) apply(s *State, result *Result) {
	if len(c.Ends) > MaxReservations {
		result.Refused = refuse(Exhausted, "%d reservations in one entry are too many", len(c.Ends))
		return
	}
	for i := range c.Ends {
		end := &c.Ends[i]
		old, known := s.reservations.Get(end.Name)
		if !known || old.EndMS != end.EndMS || old.EndMS > s.timeMS {
			continue
		}
		next := *old
		next.StartMS, next.EndMS = end.NextStartMS, end.NextEndMS
		switch {
		case old.repeats() && next.StartMS >= old.EndMS && next.check(s.timeMS) == nil:
			s.setReservation(&next)
		case !old.repeats() && s.runsIn(old.Name) == nil:
			s.deleteReservation(old.Name)
		}
	}
}

// setReservation puts a reservation in place of the one of its name. What may start on
// the nodes of both is another question then.
func (s *State) setReservation(r *Reservation) {
	s.noteReserved(r.Name)
	s.reservations.Set(r.Name, r)
	s.noteReserved(r.Name)
}

func (s *State) deleteReservation(name string) {
	s.noteReserved(name)
	s.reservations.Delete(name)
}

// noteReserved notes that the nodes of a reservation have changed.
func (s *State) noteReserved(name string) {
	if r, known := s.reservations.Get(name); known {
		s.changes.nodes = append(s.changes.nodes, r.Nodes...)
	}
}

// EndedReservations are those whose time is over by a time, and which EndReservations
// would change.
func (v *View) EndedReservations(nowMS int64) []*Reservation {
	var ended []*Reservation
	for r := range v.Reservations() {
		if r.EndMS <= nowMS && (r.repeats() || v.runsIn(r.Name) == nil) {
			ended = append(ended, r)
		}
	}
	return ended
}

func unknownReservation(name string) *Refusal {
	return refuse(NotFound, "Requested reservation is invalid: there is no reservation %s; gcontrol show reservation lists them", quotedUnlessValid(name))
}

// checkReserved refuses a reservation that is wrong by itself, that has nodes of another
// one at the same time, or into which jobs may run that run now. old is what it was.
func (s *State) checkReserved(r, old *Reservation) *Refusal {
	if refused := r.check(s.timeMS); refused != nil {
		return refused
	}
	if r.EndMS <= s.timeMS {
		return refuse(Invalid, "Invalid time specified: its end is over; give a later EndTime, or a longer Duration")
	}
	for _, name := range r.Accounts {
		if !s.hasAccount(name) {
			return refuse(Invalid, "account %s does not exist: gacctmgr show account tells which do", bounds.Quoted(name))
		}
	}
	for _, name := range r.Nodes {
		if _, known := s.nodes.Get(name); !known && (old == nil || !old.hasNode(name)) {
			return refuse(NotFound, "Invalid node name specified: node %s has never registered", quotedUnlessValid(name))
		}
	}
	for other := range s.overlapping(r) {
		if !r.yields() && !other.yields() {
			return refuse(WrongState, "Requested reservation overlaps with another reservation: %s has nodes of it at that time; choose others, or give Flags=OVERLAP", other.Name)
		}
	}
	if r.yields() || r.has(pb.ReservationFlag_RESERVATION_FLAG_IGNORE_JOBS) {
		return nil
	}
	if job, node := s.runsInto(r, old); job != nil {
		return refuse(WrongState, "Requested nodes are busy: job %d may run on node %s into the reservation; choose other nodes or a later time, or give Flags=IGNORE_JOBS", job.ID, node)
	}
	return nil
}

// runsInto is a running job that may go on into a reservation, whose it is not, on one of
// the nodes; nil = there is none. What it had before is not looked at again.
func (t *tables) runsInto(r, old *Reservation) (*Job, string) {
	for _, name := range r.Nodes {
		node, known := t.nodes.Get(name)
		if !known || old != nil && old.hasNode(name) && old.StartMS <= r.StartMS {
			continue
		}
		for _, id := range node.use.jobs {
			job := t.jobOn(id, name)
			if t.endsByMS(job, t.timeMS) > r.StartMS && !slices.Contains(job.Spec.Reservations, r.Name) {
				return job, name
			}
		}
	}
	return nil, ""
}

// endsByMS is when a job is over at the latest, if it starts now where it does not run
// yet.
func (t *tables) endsByMS(job *Job, nowMS int64) int64 {
	limit := job.leastLeftS()
	if limit == spec.Unlimited {
		return 1<<63 - 1
	}
	if job.Run == nil {
		return nowMS + int64(limit)*1000
	}
	return nowMS + max(int64(limit)*1000-job.Run.ranMS(nowMS), 0)
}

// runsIn is a job that holds nodes of a reservation, having named it; nil = none does.
func (t *tables) runsIn(name string) *Job {
	var found *Job
	reservation, known := t.reservations.Get(name)
	if !known {
		return nil
	}
	for _, at := range reservation.Nodes {
		node, known := t.nodes.Get(at)
		if !known {
			continue
		}
		for _, id := range node.use.jobs {
			if job := t.jobOn(id, at); slices.Contains(job.Spec.Reservations, name) && (found == nil || job.ID < found.ID) {
				found = job
			}
		}
	}
	return found
}
