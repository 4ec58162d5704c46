package node

import (
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// lookAgain is how soon it is looked again what could not be done yet.
const lookAgain = 100 * time.Millisecond

// look carries out what lease and suspension ask for, and plans to look again.
func (s *Shim) look() {
	s.tryStart()
	if !s.Alive || !s.made || s.Core.Ending {
		return
	}
	now, n := s.Node.Boottime(), s.Node
	do := s.Core.Look(now, false)
	switch {
	case do.Freeze && s.Core.MayRun(now):
		n.trace("allocation %s is suspended", s.Key)
		n.World.Happens(Suspended, s)
	case do.Freeze:
		n.trace("allocation %s is frozen", s.Key)
		n.World.Happens(LeaseEnded, s)
	case do.Remove:
		s.loseLease()
		return
	}
	s.carryOut(do)
	s.settle()
	wait, ok := s.Core.Lease.Next(s.Node.Boottime())
	if do.Again {
		wait, ok = lookAgain, true
	}
	if ok {
		s.looks++
		look := s.looks
		s.After(n.InTrue(wait)+n.between(0, 20*time.Millisecond), func() {
			if look == s.looks {
				s.look()
			}
		})
	}
}

// settle lets the container's processes run if nothing keeps them from it, and
// stops them otherwise.
func (s *Shim) settle() {
	switch runs := s.made && s.Core.Runs(); {
	case runs && !s.runs:
		s.run()
	case !runs && s.runs:
		s.rest()
	}
}

// run notes that the container runs from now on.
func (s *Shim) run() {
	s.runs = true
	s.turn++
	s.since, s.ranAt = s.Node.World.Now(), s.Node.World.Now()
	for _, i := range s.mine {
		if i.RanOn == 0 {
			i.RanOn = s.ranAt
		}
	}
	s.Node.World.Happens(Runs, s)
	s.Began = true
	begins := !s.Core.Up
	if begins {
		s.Core.Checkpointable = s.firstCheckpointable()
		s.Core.Started()
	}
	s.work()
	if begins {
		s.tell()
		s.lookPark()
	}
}

// rest notes that the container does not run any more.
func (s *Shim) rest() {
	s.turn++
	if s.IsBatch() && s.scriptRuns() {
		s.left -= s.Node.World.Now() - s.since
	}
	s.runs = false
	s.Node.World.Happens(Rests, s)
}

// thawAfterSave ends what a save has frozen.
func (s *Shim) thawAfterSave() {
	s.Core.Held = false
	s.settle()
}

func (s *Shim) scriptRuns() bool { return !s.Order.GetGang() || s.Core.Released }

// Done is how much of the job's work is done, over all its runs.
func (s *Shim) Done() time.Duration {
	done := s.script.Work - s.left
	if s.runs && s.IsBatch() && s.scriptRuns() {
		done += s.Node.World.Now() - s.since
	}
	return done
}

// HasMore says whether the script, which ends, leaves something to its next run.
func (s *Shim) HasMore() bool { return s.script.Later > 0 }

// work has the script end when it has run for as long as it takes.
func (s *Shim) work() {
	if !s.IsBatch() || !s.scriptRuns() {
		return
	}
	if s.Order.GetGang() {
		s.Node.World.Happens(ScriptRuns, s)
	}
	turn := s.turn
	s.After(s.left-s.script.Later, func() {
		if turn == s.turn && !s.Core.Ending && s.runs {
			s.carryOut(s.Core.StopSaves())
			s.rest()
			s.conclude(pb.EndCause_END_CAUSE_EXITED)
		}
	})
}
