package state

import (
	"fmt"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file says on which nodes reservations let a job start. A job that names some runs
// in the first of them that it may use, while that is in force, if it ends in time. Any
// other job starts on a reserved node only if it ends before the reservation begins.

// checkJobReservations refuses a job that names reservations that do not exist, or that it
// may not use.
func (t *tables) checkJobReservations(names []string, user string, association uint32) *Refusal {
	if len(names) > MaxJobReservations {
		return refuse(Exhausted, "%d reservations are too many: name at most %d", len(names), MaxJobReservations)
	}
	for _, name := range names {
		r, known := t.reservations.Get(name)
		if !known {
			return unknownReservation(name)
		}
		if !t.mayReserved(r, user, association) {
			return refuse(Denied, "Access denied to requested reservation: %s is for others; gcontrol show reservation %s says for whom", name, name)
		}
	}
	return nil
}

// UsesReservation reports whether a user may use a reservation with some account.
func (v *View) UsesReservation(r *Reservation, user string) bool {
	if v.mayReserved(r, user, 0) {
		return true
	}
	for association := range v.AssociationsOf(user) {
		if v.mayReserved(r, user, association.ID) {
			return true
		}
	}
	return false
}

// reservedFor is the reservation in which a job may start now, of those that it names: the
// first that has a node which no other one keeps from the job, or else the first. nil =
// there is none now, and if that will never be otherwise, gone.
func (t *tables) reservedFor(job *Job, nowMS int64) (now *Reservation, gone bool) {
	gone = true
	until := t.endsByMS(job, nowMS)
	for _, name := range job.Spec.Reservations {
		r, known := t.reservations.Get(name)
		if !known || !t.mayReserved(r, job.Owner().User, job.Association) {
			continue
		}
		gone = false
		flex := r.has(pb.ReservationFlag_RESERVATION_FLAG_FLEX)
		if !flex && (!r.active(nowMS) || until > r.EndMS) {
			continue
		}
		if t.hasOpenNode(r, job, nowMS) {
			return r, false
		}
		if now == nil {
			now = r
		}
	}
	return now, gone
}

// hasOpenNode reports whether a reservation has a node that no other one keeps from a job
// which starts in it.
func (t *tables) hasOpenNode(own *Reservation, job *Job, nowMS int64) bool {
	open := own.Nodes
	for r := range t.Reservations() {
		if t.closedBy(r, own, job, nowMS) {
			open = slices.DeleteFunc(slices.Clone(open), r.hasNode)
		}
	}
	return len(open) > 0
}

// schedReservation is why a job is not even planned, for its reservations: they are gone, or
// none is as long as the job.
func (v *View) schedReservation(job *Job, nowMS int64) sched.ReasonCode {
	code, _ := v.reservationWait(job, nowMS)
	if code == sched.ReasonReservation && v.policy.Scheduler.Backfills() && v.reservedNext(job, nowMS) != nil {
		return sched.ReasonNone
	}
	return code
}

// reservationWait is why a job cannot start now for its reservations: Slurm's word and a
// sentence; none if it can.
func (t *tables) reservationWait(job *Job, nowMS int64) (code sched.ReasonCode, sentence string) {
	if len(job.Spec.Reservations) == 0 {
		return sched.ReasonNone, ""
	}
	now, gone := t.reservedFor(job, nowMS)
	names := reservationsText(job.Spec.Reservations)
	switch {
	case now != nil:
		return sched.ReasonNone, ""
	case gone:
		return sched.ReasonReservationDeleted, fmt.Sprintf("reservation %s is gone: gcontrol update JobId=%d ReservationName= lets it start without one", names, job.ID)
	}
	r, _ := t.reservations.Get(job.Spec.Reservations[0])
	if r != nil && r.active(nowMS) {
		return sched.ReasonReservation, fmt.Sprintf("reservation %s is over before the job would be: a shorter TimeLimit lets it start there", r.Name)
	}
	return sched.ReasonReservation, fmt.Sprintf("waits until reservation %s begins", names)
}

// closedBy reports whether a reservation keeps a job from its nodes that starts now, in
// its own reservation if it has one.
func (t *tables) closedBy(r, own *Reservation, job *Job, nowMS int64) bool {
	until := t.endsByMS(job, nowMS)
	switch {
	case r == own || !r.meets(nowMS, until):
		return false
	case own != nil && own.yields():
		return false
	case own == nil && r.has(pb.ReservationFlag_RESERVATION_FLAG_MAGNETIC) && t.mayReserved(r, job.Owner().User, job.Association):
		return !r.active(nowMS) || until > r.EndMS && !r.has(pb.ReservationFlag_RESERVATION_FLAG_FLEX)
	}
	return true
}

// keptReserved says why reservations keep a job from starting on a node now, as in "node n1
// …"; "" = none does.
func (t *tables) keptReserved(job *Job, node string) string {
	own, _ := t.reservedFor(job, t.timeMS)
	for r := range t.Reservations() {
		if r.hasNode(node) && t.closedBy(r, own, job, t.timeMS) {
			return "is reserved (" + r.Name + ")"
		}
	}
	if len(job.Spec.Reservations) > 0 && (own == nil || !own.hasNode(node)) {
		return "is not in the job's reservation"
	}
	return ""
}

// maxReservationsTold bounds how many reservations a waiting job is told of.
const maxReservationsTold = 3

// tellReserved says of a waiting job which reservations it waits for, or keep it from
// nodes that it could use.
func (t *tables) tellReserved(message *pb.Job, job *Job) {
	if code, sentence := t.reservationWait(job, t.timeMS); code != sched.ReasonNone {
		switch message.Reason {
		case "None", "Resources", "Priority", "ReqNodeNotAvail", "Reservation", "ReservationDeleted":
			message.Reason, message.ReasonDetail = code.String(), joinSentences(job.Detail, sentence)
		}
		return
	}
	if t.reservations.Len() == 0 {
		return
	}
	own, _ := t.reservedFor(job, t.timeMS)
	text, others := "", 0
	for r := range t.Reservations() {
		if !t.closedBy(r, own, job, t.timeMS) || own != nil && !slices.ContainsFunc(r.Nodes, own.hasNode) || !slices.ContainsFunc(r.Nodes, func(name string) bool { return t.inPartitions(job, name) }) {
			continue
		}
		if others++; others <= maxReservationsTold {
			text = joinSentences(text, t.reservedSentence(r))
		}
	}
	if others > maxReservationsTold {
		text = joinSentences(text, fmt.Sprintf("%d more reservations", others-maxReservationsTold))
	}
	if text != "" {
		addKept(message, job, text)
	}
}

// reservedSentence says that a reservation has, or will have, nodes.
func (t *tables) reservedSentence(r *Reservation) string {
	nodes := "node " + r.Nodes[0] + " is"
	if len(r.Nodes) > 1 {
		nodes = "nodes " + spec.FormatHostList(r.Nodes) + " are"
	}
	if r.active(t.timeMS) {
		return fmt.Sprintf("%s reserved (%s)", nodes, r.Name)
	}
	return fmt.Sprintf("%s reserved (%s) in %s, before the job would be over: a shorter --time may let it start now", nodes, r.Name, spec.FormatDuration(uint32((r.StartMS-t.timeMS)/1000)))
}
