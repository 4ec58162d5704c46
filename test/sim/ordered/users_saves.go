package ordered

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/test/sim/history"
)

// drawSaving says with what the machine saves jobs. It has a source of its own, so
// that the rest of the day is as it was.
func (m *machine) drawSaving(n int) {
	rng := rand.New(rand.NewPCG(m.w.seed, uint64(100+n)))
	m.criu = rng.IntN(8) > 0
	m.reaches = m.w.seed%3 == 0 && rng.IntN(4) > 0
	m.model = "h100"
	if n >= 3 && rng.IntN(3) == 0 {
		m.model = "a100"
	}
	if rng.IntN(6) == 0 {
		m.kernel = 1
	}
}

// drawCheckpoint says how a job is saved.
func (w *World) drawCheckpoint(in *intent) {
	policy := &pb.CheckpointPolicy{}
	switch w.rng.IntN(10) {
	case 0, 1, 2:
		policy.IntervalS = uint32(between(w.rng, 2*time.Minute, 20*time.Minute).Seconds())
	case 3:
		policy.IntervalAuto = true
	case 4:
		policy.Mode = "none"
	case 5:
		policy.Mode = "app"
	default:
		return
	}
	in.spec.Checkpoint = policy
}

func unlisted(name string, command func(targets []state.Target) state.Command) change {
	return change{name, history.Query, false, command, nil}
}

// migrate moves jobs to nodes, ascending; none = to any other.
func migrate(to []string) change {
	return unlisted("migrate to "+strings.Join(to, ","), func(t []state.Target) state.Command {
		return state.SaveJobs{Targets: t, Privileged: true, Purpose: state.SaveMove, To: to}
	})
}

// sendOn has an operator look at a job on several nodes now and then, and move a part
// of it to another node if it runs.
func (w *World) sendOn(in *intent, looks int) {
	w.after(between(w.rng, time.Minute, 10*time.Minute), func() {
		if looks == 0 || w.over[in.job] {
			return
		}
		w.sendOn(in, looks-1)
		to := w.truth.nodesOf(in.job)
		if len(to) != int(in.spec.GetMinNodes()) {
			return
		}
		other := pick(w.rng, w.machines).name
		if !slices.Contains(to, other) {
			to[w.rng.IntN(len(to))] = other
			slices.Sort(to)
		}
		w.askFor(in, nil, migrate(to))
	})
}

// nodesOf are those on which parts of a job run now, ascending.
func (t *truth) nodesOf(job uint32) []string {
	var names []string
	for s := range t.running[job] {
		names = append(names, s.m.name)
	}
	slices.Sort(names)
	return names
}

// meddleWithRuns has operators and users save, move and suspend a job.
func (w *World) meddleWithRuns(in *intent) {
	if in.spec.GetMinNodes() > 1 && w.rng.IntN(2) == 0 {
		w.sendOn(in, 40)
	}
	switch n := w.rng.IntN(12); {
	case n < 4:
		for range 1 + w.rng.IntN(3) {
			var to []string
			if n := int(in.spec.GetMinNodes()); n > 1 || w.rng.IntN(2) == 0 {
				to = w.someNodes(max(n, 1))
			}
			w.later(in, nil, migrate(to))
		}
	case n < 6:
		for range 1 + w.rng.IntN(2) {
			w.later(in, nil, unlisted("checkpoint", func(t []state.Target) state.Command {
				return state.SaveJobs{Targets: t, UID: in.uid, Purpose: state.SaveAsked}
			}))
		}
	case n < 8:
		w.later(in, nil, unlisted("suspend", func(t []state.Target) state.Command {
			return state.SuspendJobs{Targets: t, Privileged: true}
		}))
		w.later(in, nil, unlisted("resume", func(t []state.Target) state.Command {
			return state.ResumeJobs{Targets: t, Privileged: true}
		}))
	}
}

// someNodes are as many nodes, ascending; now and then one too few.
func (w *World) someNodes(n int) []string {
	if n > 1 && w.rng.IntN(8) == 0 {
		n--
	}
	var names []string
	for _, i := range w.rng.Perm(len(w.machines))[:n] {
		names = append(names, w.machines[i].name)
	}
	slices.Sort(names)
	return names
}

// appRuns is in how many runs a job that saves itself does its work.
const appRuns = 3

// savesItself says whether the job of an order does.
func savesItself(order *pb.StartPart) bool { return order.GetSpec().GetCheckpoint().GetMode() == "app" }

// appOf names the work that a job saves by itself.
func appOf(order *pb.StartPart) string {
	return fmt.Sprintf("%s %d", order.GetSpec().GetComment(), order.GetPart().GetJob())
}

// exitCode is what the script ends with. One that has saved itself asks for another
// run.
func (s *shim) exitCode() uint32 {
	if s.after85 == 0 {
		return s.m.w.exitCodeOf(s.key)
	}
	s.m.w.appDone[appOf(s.order)] = s.done()
	return spec.SavedExit
}
