package ordered

import (
	"cmp"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"google.golang.org/protobuf/proto"
)

// shim is one part on its node: the directory on its disk, the supervisor, and
// the container. Its lease is kept by noded/lease, as the real one's is.
type shim struct {
	m     *machine
	key   partKey
	order *pb.StartPart
	alive bool // the supervisor runs
	made  bool // the container could start
	up    bool // it has started: under "fence" not before a lease names it
	lease lease.Lease

	released bool // of a gang's batch host: ReleaseBatch came
	ending   bool
	left     time.Duration // of the script's work
	since    time.Duration // true time from which it has run on, while it runs
	counted  bool          // among those that were up
	turn     int           // what was planned for an earlier turn is void
	result   *pb.PartEnded // on its disk
}

// launch makes a part's directory and starts its supervisor.
func (m *machine) launch(order *pb.StartPart, taken time.Duration) *shim {
	s := &shim{m: m, key: keyOf(order.GetPart()), order: order, alive: true}
	s.lease = lease.Lease{Fence: order.GetLeaseAction() == lease.Fence, Begun: taken}
	s.left = m.w.workOf(order)
	m.shims[s.key] = s
	m.w.truth.take(m, s)
	s.after(between(m.w.rng, 20*time.Millisecond, 500*time.Millisecond), func() {
		s.made = true
		s.look()
	})
	return s
}

// after plans something this supervisor does.
func (s *shim) after(delay time.Duration, do func()) {
	s.m.w.after(delay, func() {
		if s.alive {
			do()
		}
	})
}

// grant takes in what a controller answered to a request for the lease.
func (s *shim) grant(g lease.Grant) {
	s.lease = s.lease.Granted(g)
	s.look()
}

// look carries out what the lease says, and plans to look again.
func (s *shim) look() {
	if !s.alive || !s.made || s.ending {
		return
	}
	now := s.m.boottime()
	switch action := s.lease.At(now); action {
	case lease.Thaw:
		s.lease.Runs = true
		s.run()
	case lease.Freeze:
		s.m.w.trace(s.m.name, "part %s is frozen", s.key)
		s.m.w.Frozen++
		s.lease.Runs = false
		s.rest()
	case lease.Remove:
		s.m.w.trace(s.m.name, "part %s may not run here any more", s.key)
		s.end(0, pb.EndCause_END_CAUSE_LEASE_ENDED)
		return
	}
	if wait, ok := s.lease.Next(s.m.boottime()); ok {
		turn := s.turn
		s.after(s.m.inTrue(wait)+between(s.m.w.rng, 0, 20*time.Millisecond), func() {
			if turn == s.turn {
				s.look()
			}
		})
	}
}

// run lets the container's processes run.
func (s *shim) run() {
	s.turn++
	s.since = s.m.w.now
	s.m.w.truth.runs(s.m, s)
	s.work()
	if !s.up {
		s.up = true
		s.m.daemon.shimReady(s)
	}
}

// work has the script end when it has run for as long as it takes.
func (s *shim) work() {
	if !s.isBatch() || !s.scriptRuns() {
		return
	}
	if s.order.GetGang() {
		s.m.w.truth.script(s)
	}
	turn := s.turn
	s.after(s.left, func() {
		if turn == s.turn && !s.ending && s.lease.Runs {
			s.rest()
			s.conclude(pb.EndCause_END_CAUSE_EXITED)
		}
	})
}

func (s *shim) isBatch() bool    { return s.order.GetNode() == s.order.GetBatchHost() }
func (s *shim) scriptRuns() bool { return !s.order.GetGang() || s.released }

// rest notes that the container does not run any more.
func (s *shim) rest() {
	s.turn++
	if s.isBatch() && s.scriptRuns() {
		s.left -= s.m.w.now - s.since
	}
	s.m.w.truth.stands(s.m, s)
}

// release starts a gang's script.
func (s *shim) release() {
	if s.released || s.ending {
		return
	}
	s.released = true
	if s.lease.Runs {
		s.turn++
		s.since = s.m.w.now
		s.work()
		s.look()
	}
}

// end ends the container: at once, or after as much of the grace as its
// processes take. Without a lease there is none.
func (s *shim) end(grace time.Duration, cause pb.EndCause) {
	if s.ending || s.result != nil {
		return
	}
	s.ending = true
	delay := between(s.m.w.rng, 0, grace)
	if now := s.m.boottime(); s.lease.Fence {
		delay = min(delay, s.m.inTrue(max(0, s.lease.End-now)))
	}
	delay += between(s.m.w.rng, 5*time.Millisecond, 100*time.Millisecond)
	s.after(delay, func() {
		if s.lease.Runs {
			s.lease.Runs = false
			s.m.w.truth.stands(s.m, s)
		}
		s.conclude(cause)
	})
}

// conclude writes the result, when nothing of the part is left.
func (s *shim) conclude(cause pb.EndCause) {
	s.ending = true
	s.after(between(s.m.w.rng, time.Millisecond, 50*time.Millisecond), func() {
		s.result = &pb.PartEnded{Part: s.key.id(), Cause: cause}
		if cause == pb.EndCause_END_CAUSE_EXITED && s.isBatch() {
			s.result.ExitCode = s.m.w.exitCodeOf(s.key)
		}
		s.alive = false
		s.m.w.truth.ended(s.m, s, s.result)
		s.m.daemon.shimEnded(s)
	})
}

// die is a kill of the supervisor: its job dies with it, by the kernel.
func (s *shim) die() {
	if !s.alive {
		return
	}
	s.alive = false
	s.turn++
	if s.lease.Runs {
		s.lease.Runs = false
		s.m.w.truth.stands(s.m, s)
	}
	s.m.daemon.shimEnded(s)
}

// recover cleans up after a supervisor that died without a result.
func (s *shim) recover() *pb.PartEnded {
	if s.result == nil {
		s.result = &pb.PartEnded{Part: s.key.id(), Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}
		s.m.w.truth.ended(s.m, s, s.result)
	}
	return proto.CloneOf(s.result)
}

func (m *machine) shimsInOrder() []*shim {
	all := make([]*shim, 0, len(m.shims))
	for _, s := range m.shims {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *shim) int {
		return cmp.Or(cmp.Compare(a.key.job, b.key.job), cmp.Compare(a.key.epoch, b.key.epoch))
	})
	return all
}

// frozen says whether it was up and does not run, at the end of a lease.
func (s *shim) frozen() bool { return s.alive && s.up && !s.ending && !s.lease.Runs }
