package run

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// attend handles whatever happens until no node has anything more to say.
func (r *stepRunner) attend(events <-chan nodeEvent) {
	late := time.After(startTime)
	for r.open > 0 {
		select {
		case event := <-events:
			r.handle(event)
		case sig := <-r.signals:
			r.pass(sig)
		case <-late:
			if r.unstarted > 0 && !r.ending {
				r.say("error: %d nodes did not start their tasks within %s", r.unstarted, startTime)
				r.status = max(r.status, 1)
				r.end()
			}
		case <-r.leftBehind:
			r.endLeftBehind()
		case <-r.gather:
			r.report()
		case <-r.kill:
			r.signalAll(syscall.SIGKILL)
			r.giveUp = time.After(giveUpTime)
		case <-r.giveUp:
			r.say("error: tasks on %d nodes did not end; leaving them to the end of the job", r.open)
			r.status = max(r.status, 1)
			return
		}
	}
}

func (r *stepRunner) handle(event nodeEvent) {
	place := r.plan[event.place]
	if r.over[event.place] {
		return // of a node that was given up
	}
	if what := r.foreign(event.place, event.message); what != "" {
		r.say("error: %s: %s: the step is ended", place.node, what)
		_ = r.clients[event.place].Close()
		r.closed(event.place, 1)
		return
	}
	if event.err != nil {
		r.say("error: %s: lost the connection to %s: %s", place.node, taskWords(place.ranks), format.Printable(event.err.Error()))
		r.closed(event.place, 1)
		return
	}
	switch message := event.message.(type) {
	case *step.Started:
		r.nodeStarted(event.place)
	case *step.Output:
		if err := r.outputs.write(message.Rank, message.Stream, message.Data); err != nil {
			r.outputLost(err)
		}
	case *step.Exited:
		r.exited(event.place, message)
	case *step.Fence:
		r.fence(event.place, message)
	case *step.Failed:
		r.say("error: %s: %s", place.node, format.Printable(message.Text))
		r.closed(event.place, max(message.Code, 1))
	case *step.Done:
		r.over[event.place] = true
		r.open--
	}
}

// foreign says what is wrong with a message that a sound node does not send:
// what it says of tasks that are not its own would be kept, or counted.
func (r *stepRunner) foreign(place int, message step.Message) string {
	rank := uint32(0)
	switch message := message.(type) {
	case *step.Started:
		if r.started[place] {
			return "it says twice that it has started"
		}
		return ""
	case *step.Fence:
		if _, twice := r.fences[place]; twice && !message.Aborted {
			return "it says twice that its tasks are at a fence"
		}
		return ""
	case *step.Output:
		rank = message.Rank
	case *step.Exited:
		rank = message.Rank
	default:
		return ""
	}
	if _, known := slices.BinarySearch(r.plan[place].ranks, rank); !known {
		return fmt.Sprintf("it speaks of task %d, which is not there", rank)
	}
	return ""
}

// nodeStarted passes on the signals that came too early, and opens the input
// once all nodes are there to take it.
func (r *stepRunner) nodeStarted(place int) {
	r.started[place] = true
	r.unstarted--
	for _, number := range r.waiting {
		r.signal(place, number)
	}
	if r.unstarted > 0 {
		return
	}
	for _, source := range r.inputs {
		go source.pump(r.clients, func(rank uint32) *step.Client { return r.clients[r.nodeOf(rank)] })
	}
}

// closed is the end of a node that did not say Done. The step cannot continue
// without its tasks.
func (r *stepRunner) closed(place, status int) {
	r.over[place] = true
	r.open--
	r.status = max(r.status, min(status, 255))
	r.end()
}

func (r *stepRunner) exited(place int, message *step.Exited) {
	if err := r.outputs.flush(message.Rank); err != nil {
		r.outputLost(err)
	}
	if r.waitAfter > 0 && r.leftBehind == nil {
		r.leftBehind = time.After(r.waitAfter)
	}
	status, how := message.Code, fmt.Sprintf("Exited with exit code %d", message.Code)
	if message.Signal != 0 {
		text := syscall.Signal(message.Signal).String()
		status, how = 128+message.Signal, strings.ToUpper(text[:1])+text[1:]
	}
	if status == 0 {
		return
	}
	r.status = max(r.status, status)
	end := taskEnd{place, how}
	if !slices.Contains(r.ends[end], message.Rank) {
		r.ends[end] = append(r.ends[end], message.Rank)
	}
	if r.gather == nil {
		r.gather = time.After(gatherTime)
	}
	if r.inv.Given(optKillOnBadExit) && r.inv.Text(optKillOnBadExit) != "0" && !r.ending {
		r.report()
		if !r.inv.Given(jobspec.OptQuiet) {
			r.say("Terminating StepId=%s.%d", r.shape.job, r.number)
		}
		r.end()
	}
}

// endLeftBehind ends the tasks that still run some time after the first has ended.
func (r *stepRunner) endLeftBehind() {
	if r.ending {
		return
	}
	if !r.inv.Given(jobspec.OptQuiet) {
		r.say("First task exited %s ago", r.waitAfter)
		r.say("Terminating StepId=%s.%d", r.shape.job, r.number)
	}
	r.end()
}

// outputLost ends the step when what it writes cannot be kept.
func (r *stepRunner) outputLost(err error) {
	if !r.ending {
		r.say("error: the output of the tasks cannot be written: %v", console.Reason(err))
	}
	r.status = max(r.status, 1)
	r.end()
}

// report says how tasks ended, tasks of one node that ended alike together.
func (r *stepRunner) report() {
	r.gather = nil
	ends := make([]taskEnd, 0, len(r.ends))
	for end := range r.ends {
		slices.Sort(r.ends[end])
		ends = append(ends, end)
	}
	slices.SortFunc(ends, func(a, b taskEnd) int { return int(r.ends[a][0]) - int(r.ends[b][0]) })
	for _, end := range ends {
		r.say("error: %s: %s: %s", r.plan[end.place].node, taskWords(r.ends[end]), end.how)
	}
	clear(r.ends)
}

// end ends all tasks: SIGTERM now, SIGKILL after a grace.
func (r *stepRunner) end() {
	if r.ending {
		return
	}
	r.ending = true
	r.signalAll(syscall.SIGTERM)
	r.signalAll(syscall.SIGCONT)
	r.kill = time.After(session.KillWait)
}

// pass hands a signal on to the tasks; two interrupts within a second kill
// them.
func (r *stepRunner) pass(sig os.Signal) {
	number, known := sig.(syscall.Signal)
	if !known {
		return
	}
	if number == syscall.SIGINT {
		if time.Since(r.interrupt) < session.InterruptPair {
			number = syscall.SIGKILL
			r.ending = true
			r.giveUp = time.After(giveUpTime)
		}
		r.interrupt = time.Now()
	}
	r.signalAll(number)
}

// signalAll signals the tasks of every node; those that have not started get
// the signal when they have, except that one to kill ends them at once.
func (r *stepRunner) signalAll(number syscall.Signal) {
	for place, client := range r.clients {
		switch {
		case r.over[place]:
		case r.started[place]:
			r.signal(place, number)
		case number == syscall.SIGKILL:
			_ = client.Close()
		}
	}
	if r.unstarted > 0 && len(r.waiting) < maxWaitingSignals {
		r.waiting = append(r.waiting, number)
	}
}

// signal does not wait: a node whose connection hangs must not keep the signal
// from the others.
func (r *stepRunner) signal(place int, number syscall.Signal) {
	client := r.clients[place]
	go func() { _ = client.Signal(uint32(number), step.ScopeStep, r.number) }()
}

func (r *stepRunner) say(text string, arguments ...any) {
	fmt.Fprintf(r.inv.Stderr, "%s: %s\n", r.inv.Command.Program(), fmt.Sprintf(text, arguments...))
}

// taskWords is "task 3" or "tasks 0-2,5".
func taskWords(ranks []uint32) string {
	if len(ranks) == 1 {
		return "task " + formatRanks(ranks)
	}
	return "tasks " + formatRanks(ranks)
}
