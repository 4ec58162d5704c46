package ordered

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/test/sim/history"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// drawSaving says with what the machine saves jobs. It has a source of its own, so
// that the rest of the day is as it was.
func (w *World) drawSaving(m *node.Node) {
	rng := rand.New(rand.NewPCG(w.seed, uint64(100+m.Number)))
	m.CRIU = rng.IntN(8) > 0
	if w.seed%3 == 0 && rng.IntN(4) > 0 {
		m.Shared = w.shared
	}
	m.Model = "h100"
	if m.Number >= 3 && rng.IntN(3) == 0 {
		m.Model = "a100"
	}
	if rng.IntN(6) == 0 {
		m.Kernel = 1
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

// sendOn has an operator look at a job on several nodes now and then, and move it to
// others if it runs.
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
		others := w.someNodes(len(w.machines))
		others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(to, name) })
		if len(others) >= len(to) {
			w.askFor(in, nil, migrate(others[:len(to)]))
		}
	})
}

// nodesOf are those on which allocations of a job run now, ascending.
func (t *truth) nodesOf(job uint32) []string {
	var names []string
	for s := range t.running[job] {
		names = append(names, s.Node.Name)
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
		names = append(names, w.machines[i].Name)
	}
	slices.Sort(names)
	return names
}

// appRuns is in how many runs a job that saves itself does its work.
const appRuns = 3

// savesItself says whether the job of an order does.
func savesItself(order *pb.StartAlloc) bool {
	return order.GetSpec().GetCheckpoint().GetMode() == "app"
}

// appOf names the work that a job saves by itself.
func appOf(order *pb.StartAlloc) string {
	return fmt.Sprintf("%s %d", order.GetSpec().GetComment(), order.GetAlloc().GetJob())
}

// Script implements node.World.
func (w *World) Script(order *pb.StartAlloc) node.Script {
	script := node.Script{Work: time.Minute}
	if in := w.intents[order.GetSpec().GetComment()]; in != nil {
		script.Work = in.work
	}
	if savesItself(order) {
		script.Done = w.appDone[appOf(order)]
		script.Later = max(0, script.Work-script.Done-script.Work/appRuns)
	}
	return script
}

// ExitCode implements node.World. A script that has saved itself asks for another run.
func (w *World) ExitCode(s *node.Shim) uint32 {
	if s.HasMore() {
		w.appDone[appOf(s.Order)] = s.Done()
		return spec.SavedExit
	}
	sum := fnv.New32a()
	fmt.Fprint(sum, w.seed, s.Key)
	if n := sum.Sum32(); n%8 == 0 {
		return 1 + n/8%100
	}
	return 0
}
