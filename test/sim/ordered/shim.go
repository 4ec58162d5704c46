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
	ready bool // and its daemon was told, or it is restored and stands until all parts are
	lease lease.Lease
	looks int  // what was planned for an earlier look is void
	held  bool // by a save
	runs  bool // its processes: nothing keeps them from it
	saves saves
	image *image   // from which it goes on; nil = from the script
	mine  []*image // that were made of it

	suspendNumber uint32        // of the order to stand still, or to go on, that counts
	saidBy        time.Duration // when what it said last is heard

	released bool // of a gang: ReleaseBatch came, to the batch host or, restored, to all
	ending   bool
	left     time.Duration // of the script's work
	after85  time.Duration // of that, what a script that saves itself leaves to its next run
	since    time.Duration // true time from which it has run on, while it runs
	counted  bool          // among the parts of its run that are there
	began    bool          // its processes have run
	ranAt    time.Duration // when they began to run last
	turn     int           // what was planned for an earlier turn is void
	result   *pb.PartEnded // on its disk
}

// launch makes a part's directory and starts its supervisor.
func (m *machine) launch(order *pb.StartPart, taken time.Duration) *shim {
	s := &shim{m: m, key: keyOf(order.GetPart()), order: order, alive: true}
	s.lease = lease.Lease{Fence: order.GetLeaseAction() == lease.Fence, Begun: taken}
	s.left = m.w.workOf(order)
	if savesItself(order) {
		s.left -= m.w.appDone[appOf(order)]
		s.after85 = max(0, s.left-m.w.workOf(order)/appRuns)
	}
	m.shims[s.key] = s
	m.w.truth.take(m, s)
	s.after(between(m.w.rng, 20*time.Millisecond, 500*time.Millisecond), func() {
		if order.GetRestore() != nil && !s.ending {
			s.fetch()
			return
		}
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
	if s.saves.stands != nil && s.m.w.broken.LeaseLetsGo {
		s.letGo()
	}
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
		s.settle()
		s.m.daemon.shimSuspended(s)
	case lease.Freeze:
		if s.lease.MayRun(now) {
			s.m.w.trace(s.m.name, "part %s is suspended", s.key)
			s.m.w.Suspended++
			if x := s.saves.now; x != nil && x.dumping {
				// It stands, and is frozen when criu has done with it.
				s.after(100*time.Millisecond, s.look)
				return
			}
		} else {
			s.m.w.trace(s.m.name, "part %s is frozen", s.key)
			s.m.w.Frozen++
			if x := s.saves.now; x != nil && x.dumping {
				s.stopSaving("its lease ended meanwhile")
			}
		}
		s.lease.Runs = false
		s.settle()
		s.m.daemon.shimSuspended(s)
	case lease.Remove:
		s.m.w.trace(s.m.name, "part %s may not run here any more", s.key)
		s.end(0, pb.EndCause_END_CAUSE_LEASE_ENDED)
		return
	}
	if wait, ok := s.lease.Next(s.m.boottime()); ok {
		s.looks++
		look := s.looks
		s.after(s.m.inTrue(wait)+between(s.m.w.rng, 0, 20*time.Millisecond), func() {
			if look == s.looks {
				s.look()
			}
		})
	}
}

// settle lets the container's processes run if neither its lease nor a save keeps
// them from it, and stops them otherwise.
func (s *shim) settle() {
	switch runs := s.lease.Runs && !s.held; {
	case runs && !s.runs:
		s.runs = true
		s.turn++
		s.since = s.m.w.now
		s.m.w.truth.runs(s.m, s)
		s.work()
		if !s.up {
			s.up, s.ready = true, true
			s.firstGrade()
			s.m.daemon.shimReady(s)
			s.m.daemon.shimGraded(s)
		}
	case !runs && s.runs:
		s.rest()
	}
}

// done is how much of the job's work is done, over all its runs.
func (s *shim) done() time.Duration {
	done := s.m.w.workOf(s.order) - s.left
	if s.runs && s.isBatch() && s.scriptRuns() {
		done += s.m.w.now - s.since
	}
	return done
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
	s.after(s.left-s.after85, func() {
		if turn == s.turn && !s.ending && s.runs {
			s.stopSaving(jobEnds)
			s.rest()
			s.conclude(pb.EndCause_END_CAUSE_EXITED)
		}
	})
}

// index is the part's, among those of its run.
func (s *shim) index() int {
	return slices.IndexFunc(s.order.GetAllocation(), func(a *pb.NodeAllocation) bool { return a.GetNode() == s.m.name })
}

func (s *shim) isBatch() bool    { return s.order.GetNode() == s.order.GetBatchHost() }
func (s *shim) scriptRuns() bool { return !s.order.GetGang() || s.released }

// rest notes that the container does not run any more.
func (s *shim) rest() {
	s.turn++
	if s.isBatch() && s.scriptRuns() {
		s.left -= s.m.w.now - s.since
	}
	s.runs = false
	s.m.w.truth.stands(s.m, s)
}

// release starts a gang's script, or has a part go on that is restored.
func (s *shim) release() {
	if s.released || s.ending || !s.isBatch() && s.image == nil {
		return
	}
	s.released = true
	if s.image != nil {
		s.goOn()
		return
	}
	if s.runs {
		s.turn++
		s.since = s.m.w.now
		s.work()
	}
}

// end ends the container: at once, or after as much of the grace as its
// processes take. Without a lease there is none.
func (s *shim) end(grace time.Duration, cause pb.EndCause) {
	if s.ending || s.result != nil {
		return
	}
	s.ending = true
	s.stopSaving(jobEnds)
	if s.saves.stands != nil || !s.mayRun() || !s.up {
		grace = 0 // it may go on elsewhere, from where it stands, or has not begun
	} else if grace > 0 {
		s.lease.Runs = s.up // one that is suspended too
		s.letGo()
	}
	delay := between(s.m.w.rng, 0, grace)
	if now := s.m.boottime(); s.lease.Fence {
		delay = min(delay, s.m.inTrue(max(0, s.lease.End-now)))
	}
	delay += between(s.m.w.rng, 5*time.Millisecond, 100*time.Millisecond)
	s.after(delay, func() {
		s.kill()
		s.conclude(cause)
	})
}

// conclude writes the result, when nothing of the part is left.
func (s *shim) conclude(cause pb.EndCause) {
	s.ending = true
	s.after(between(s.m.w.rng, time.Millisecond, 50*time.Millisecond), func() {
		s.result = &pb.PartEnded{Part: s.key.id(), Cause: cause}
		if cause == pb.EndCause_END_CAUSE_EXITED && s.isBatch() {
			s.result.ExitCode = s.exitCode()
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
	s.kill()
	s.m.daemon.shimEnded(s)
}

// kill ends the part's processes.
func (s *shim) kill() {
	s.turn++
	s.lease.Runs = false
	if s.runs {
		s.rest()
	}
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
func (s *shim) frozen() bool {
	return s.alive && s.up && !s.ending && !s.lease.Runs && !s.lease.Suspended
}
