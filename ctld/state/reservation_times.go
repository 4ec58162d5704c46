package state

import (
	"math"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file says at which times reservations let a job have their nodes: those of
// reservation_jobs.go, not only for a start now.

type reservedKey struct {
	names       string
	user        string
	association uint32
	limitS      uint32
}

// reservationRule keeps jobs to reservations. Jobs of the same kind are judged once.
func (v *View) reservationRule(nowMS int64, told NodeReports) nodeRule {
	if v.reservations.Len() == 0 {
		return nil
	}
	key := func(job *Job) reservedKey {
		return reservedKey{reservationsText(job.Spec.Reservations), job.Owner().User, job.Association, job.leastLeftS()}
	}
	return newNodeRule(key, func(job *Job) (out nodesFor) {
		own, _ := v.reservedFor(job, nowMS)
		if own == nil {
			own = v.reservedNext(job, nowMS)
		}
		if own != nil {
			v.stayIn(own, told, &out)
		}
		for r := range v.Reservations() {
			if r != own && (own == nil || !own.yields()) {
				v.stayOut(r, own, job, told, &out)
			}
		}
		return out
	})
}

// reservedNext is the reservation in which a job may start later, of those that it names:
// the one that begins first and is long enough; nil = there is none.
func (t *tables) reservedNext(job *Job, nowMS int64) (next *Reservation) {
	for _, name := range job.Spec.Reservations {
		r, known := t.reservations.Get(name)
		if !known || !t.mayReserved(r, job.Owner().User, job.Association) || r.StartMS <= nowMS && !r.repeats() {
			continue
		}
		if t.endsByMS(job, r.StartMS) <= r.EndMS && (next == nil || r.StartMS < next.StartMS) {
			next = r
		}
	}
	return next
}

// times are when a reservation is in force, ascending, as far as is known.
func (r *Reservation) times(told NodeReports) []Span {
	times := []Span{{r.StartMS, r.EndMS}}
	if r.repeats() && told.Reserved != nil {
		times = append(times, told.Reserved(r)...)
	}
	return times
}

// stayIn keeps a job to the nodes of its reservation, and to its times unless it is FLEX.
func (t *tables) stayIn(own *Reservation, told NodeReports, out *nodesFor) {
	for node := range t.Nodes() {
		if !own.hasNode(node.Name) {
			out.never = append(out.never, node.Name)
		}
	}
	if own.has(pb.ReservationFlag_RESERVATION_FLAG_FLEX) {
		return
	}
	for _, node := range own.Nodes {
		end := int64(math.MinInt64)
		for _, span := range own.times(told) {
			out.close(node, end, span.FromMS, false, sched.ClosedByReservation)
			end = span.ToMS
		}
		out.close(node, end, math.MaxInt64, false, sched.ClosedByReservation)
	}
}

// stayOut keeps a job from another reservation. Through one that draws it in (MAGNETIC) no
// job runs from before its begin, nor beyond its end.
func (t *tables) stayOut(r, own *Reservation, job *Job, told NodeReports, out *nodesFor) {
	magnetic := own == nil && r.has(pb.ReservationFlag_RESERVATION_FLAG_MAGNETIC) && t.mayReserved(r, job.Owner().User, job.Association)
	times := r.times(told)
	for _, node := range r.Nodes {
		for _, span := range times {
			if !magnetic {
				out.close(node, span.FromMS, span.ToMS, false, sched.ClosedByReservation)
				continue
			}
			out.close(node, span.FromMS, span.FromMS, false, sched.ClosedByReservation)
			if !r.has(pb.ReservationFlag_RESERVATION_FLAG_FLEX) {
				out.close(node, span.ToMS, span.ToMS, false, sched.ClosedByReservation)
			}
		}
		if r.repeats() { // nobody has looked at when it is in force after that
			out.close(node, times[len(times)-1].ToMS, math.MaxInt64, false, sched.ClosedByReservation)
		}
	}
}
