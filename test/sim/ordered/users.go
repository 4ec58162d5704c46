package ordered

import (
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/test/sim/history"
)

// work has users submit jobs until the given moment.
func (w *World) work(until time.Duration) {
	w.after(between(w.rng, 0, w.Options.Between*2), func() {
		if w.now > until {
			return
		}
		w.submit(w.newIntent())
		w.work(until)
	})
}

func (w *World) submit(in *intent) {
	in.submit = w.ask(&request{
		what: "submit " + in.name, kind: history.Submit, listed: true,
		command: func() (state.Command, error) {
			command, err := state.SubmitFromSpec(in.spec, identity(in.uid))
			return command, err
		},
		then: func() { w.follow(in) },
	})
}

// follow has the user look after a job that was accepted.
func (w *World) follow(in *intent) {
	job := in.submit.jobID
	if job == 0 {
		if !w.mayBeRefused(in) {
			w.fail("refused: %s: %s", in.name, in.submit.refused)
		}
		return
	}
	w.trace("user", "%s is job %d", in.name, job)
	// An array's number is also that of its last task, so what is said of it
	// is no one job's life.
	plain := in.spec.GetArray() == nil
	if w.rng.IntN(2) == 0 {
		w.ask(&request{what: fmt.Sprintf("query %d", job), kind: history.Query, listed: plain, job: job})
	}
	for range 1 + w.rng.IntN(4) {
		w.after(between(w.rng, 0, time.Hour), func() {
			w.ask(&request{what: fmt.Sprintf("query %d", job), kind: history.Query, listed: plain, job: job})
		})
	}
	w.meddle(in)
}

// administer asks for something as the administrator.
func (w *World) administer(what string, command state.Command, then func()) {
	w.trace("admin", "%s", what)
	w.ask(&request{what: what, admin: true, command: func() (state.Command, error) { return command, nil }, then: then})
}

func (w *World) updateNode(m *machine, action state.NodeAction, then func()) {
	names := map[state.NodeAction]string{state.DrainNode: "drain", state.ResumeNode: "resume", state.FenceNode: "fence"}
	command := state.UpdateNodes{Names: []string{m.Name}, Action: action, Reason: "simulated", User: "root"}
	if action == state.ResumeNode {
		command.Reason = ""
	}
	w.administer(names[action]+" "+m.Name, command, then)
}

// tidy releases what was held, cancels what waits for what can never be, and
// takes nodes up again, after the faults: then everything must end.
func (w *World) tidy() {
	if w.quiet {
		return
	}
	if lead := w.log.leader; lead != nil && lead.leading {
		view := lead.View()
		for job := range view.LiveJobs() {
			switch {
			case job.Suspended() && job.Run.Suspension.Held:
				w.administer(fmt.Sprintf("resume %d", job.ID), state.ResumeJobs{Targets: []state.Target{targetOf(job)}, Privileged: true}, nil)
			case job.Phase != state.Waiting:
			case w.hopeless(job, view.TimeMS()):
				w.administer(fmt.Sprintf("cancel %d", job.ID), state.CancelJobs{Targets: []state.Target{targetOf(job)}, Privileged: true}, nil)
			case job.Held != 0 && w.truth.spoiled(job) && !job.Spec.Requeue:
				may := true
				change := state.JobChange{Requeue: &may}
				w.administer(fmt.Sprintf("let requeue %d", job.ID), state.UpdateJobs{Targets: []state.Target{targetOf(job)}, Privileged: true, Change: change}, nil)
			case job.Held != 0 && w.truth.spoiled(job):
				w.administer(fmt.Sprintf("requeue %d", job.ID), state.RequeueJobs{Targets: []state.Target{targetOf(job)}, Privileged: true}, nil)
			case job.Held != 0:
				w.administer(fmt.Sprintf("release %d", job.ID), state.ReleaseJobs{Targets: []state.Target{targetOf(job)}, Privileged: true}, nil)
			}
		}
		for _, name := range reclaimedNodes(view) {
			w.release(name)
		}
		for _, m := range w.machines {
			if node, known := view.Node(m.Name); known && (node.Drain || node.Down) {
				w.updateNode(m, state.ResumeNode, nil)
			}
		}
	}
	w.after(2*time.Minute, w.tidy)
}

// record is the history of the requests.
func (w *World) record() []history.Operation {
	var operations []history.Operation
	for i, r := range w.asked {
		job := r.job
		if r.kind == history.Submit {
			job = w.intentOf(r).job
		}
		if job == 0 {
			continue // never took effect, and nobody was told that it did
		}
		purged, isPurged := w.purged[job]
		operations = append(operations, history.Operation{
			Client: i, Kind: r.kind, Job: job, Call: r.called, Return: r.returned, Unknown: !r.done || r.gaveUp,
			Done: r.ok, Phase: r.phase, Epoch: r.epoch, Forgotten: isPurged && purged <= r.returned,
		})
	}
	return operations
}

func (w *World) intentOf(r *request) *intent { return w.intents[r.what[len("submit "):]] }
