package state

import (
	"fmt"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// reserve makes a command about a reservation, often one that is refused.
func (w *walker) reserve(v *View) Command {
	name := fmt.Sprintf("r%d", w.Intn(4))
	start := v.TimeMS() + int64(w.Intn(200_000)) - 50_000
	r := Reservation{
		Name: name, StartMS: start, EndMS: start + int64(w.Intn(100_000)), Repeat: pb.ReservationRepeat(w.Intn(7) * w.Intn(2)),
		Nodes: sortedSet([]string{w.node(), w.node()}[:w.Intn(3)]), Users: sortedSet([]string{w.userName(), w.userName()}[:w.Intn(3)]), NotUsers: w.chance(20),
		Accounts: sortedSet([]string{w.accountName()}[:w.Intn(2)]), NotAccounts: w.chance(20),
	}
	for flag := 1; flag < len(pb.ReservationFlag_name); flag++ {
		if w.chance(15) {
			r.Flags = append(r.Flags, pb.ReservationFlag(flag))
		}
	}
	switch n := w.Intn(100); {
	case n < 55:
		return CreateReservation{Reservation: r, User: w.userName()}
	case n < 70:
		c := UpdateReservation{Reservation: r}
		for _, field := range []string{"start_ms", "end_ms", "nodes", "users", "accounts", "flags", "repeat", "colour"} {
			if w.chance(40) {
				c.Fields = append(c.Fields, field)
			}
		}
		return c
	case n < 85:
		return DeleteReservation{Name: name}
	}
	c := EndReservations{}
	for _, ended := range v.EndedReservations(v.TimeMS()) {
		c.Ends = append(c.Ends, ReservationEnd{Name: ended.Name, EndMS: ended.EndMS, NextStartMS: start, NextEndMS: start + int64(w.Intn(100_000))})
	}
	return c
}

// nameReservation has a job name a reservation, mostly one that it may use.
func (w *walker) nameReservation(v *View, c *SubmitJob) {
	for r := range v.Reservations() {
		if w.chance(50) {
			continue
		}
		c.Spec.Reservations = append(c.Spec.Reservations, r.Name)
		if len(r.Users) > 0 && !r.NotUsers && w.chance(90) {
			c.Owner.User, c.Spec.TimeLimitS, c.Spec.MinNodes = r.Users[0], 1+uint32(w.Intn(10)), 0
			c.Spec.ArrayTasks = nil
		}
	}
}

// checkReserved fails if a start ignored a reservation.
func checkReserved(t *testing.T, s *State, result *Result, tally map[string]int) {
	t.Helper()
	if s.reservations.Len() > 0 {
		tally["reserved"]++
	}
	for _, start := range result.Starts {
		if start.Job == 0 {
			continue
		}
		job, _ := s.Job(start.Job)
		for i := range job.Run.Allocs {
			if why := s.keptReserved(job, job.Run.Allocs[i].Node); why != "" {
				t.Fatalf("job %d was started, and node %s %s", job.ID, job.Run.Allocs[i].Node, why)
			}
		}
		if len(job.Spec.Reservations) > 0 {
			tally["started in reservations"]++
		}
	}
}
