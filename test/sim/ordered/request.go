package ordered

import (
	"context"
	"encoding/binary"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/sim/history"
)

// request is what a user or an administrator asks for, and asks again with the
// same request id until it is answered or they give up.
type request struct {
	w      *World
	number uint64
	what   string
	kind   history.Kind
	admin  bool
	listed bool // it is part of the history that is checked
	job    uint32
	// command makes what is proposed; nil for a query.
	command func() (state.Command, error)
	then    func()
	// took is told what came of the command when it is applied, whether or not
	// anybody learns of it.
	took func(*state.Result)

	called, returned time.Duration
	done, gaveUp     bool
	attempts         int
	via              int // the controller that is asked next

	jobID   uint32 // of a submission
	refused string
	ok      bool // carried out, or was so already
	phase   history.Phase
	epoch   uint32
}

// Patience of those who ask.
const (
	askPatience = 8 * time.Second
	maxAttempts = 40
)

func (w *World) ask(r *request) *request {
	r.w, r.called = w, w.now
	w.Requests++
	r.number = w.Requests
	r.via = w.rng.IntN(len(w.controllers))
	if r.took != nil {
		w.changes[r.id()] = r.took
	}
	if r.listed {
		w.asked = append(w.asked, r)
	}
	r.attempt()
	return r
}

// id is the request id, the same for every attempt.
func (r *request) id() state.RequestID {
	var id state.RequestID
	binary.BigEndian.PutUint64(id[:], r.w.seed+1)
	binary.BigEndian.PutUint64(id[8:], r.number)
	return id
}

func (r *request) attempt() {
	if r.done {
		return
	}
	// An administrator goes on until there is an answer: what was given up
	// could still be carried out later, when it is not true any more.
	if r.attempts++; r.attempts > maxAttempts && !r.admin {
		r.done, r.gaveUp = true, true
		r.w.trace("user", "gives up on %s", r.what)
		return
	}
	w := r.w
	c := w.controllers[r.via%len(w.controllers)]
	hops, lead := []place{users, c.place}, c
	if c.runs() && !c.leading && w.log.leader != nil && w.log.leader != c {
		lead = w.log.leader
		hops = append(hops, lead.place)
	}
	conn := w.newConn(hops...)
	over := false
	next := func() {
		if !over {
			over = true
			conn.up.closed, conn.down.closed = true, true
			r.via++
			w.after(between(w.rng, 100*time.Millisecond, 2*time.Second), r.attempt)
		}
	}
	w.after(between(w.rng, askPatience/4, askPatience), next)
	starts := lead.starts
	conn.up.send(func() {
		lead.whenRuns(starts, func() {
			lead.spawn(func() {
				answer := lead.carryOut(r)
				conn.down.send(func() {
					switch {
					case answer == nil:
						next()
					case !over && !r.done:
						over = true
						answer()
						r.answered()
					}
				})
			})
		}, next)
	})
}

func (r *request) answered() {
	if r.done {
		return
	}
	r.done, r.returned = true, r.w.now
	if r.then != nil {
		r.then()
	}
}

// carryOut does what the api's handlers do, and answers what the client learns
// then: nil when it is to ask again.
func (c *controller) carryOut(r *request) (learn func()) {
	ctx := context.Background()
	if !c.leading {
		return nil
	}
	if r.command == nil {
		if c.Confirm(ctx) != nil {
			return nil
		}
		view := c.View()
		job, known := view.Job(r.job)
		if known {
			c.noteWaiting(view, job)
		}
		return func() {
			if r.phase = history.Missing; known {
				r.phase, r.epoch = phases[job.Phase], job.Epoch
			}
		}
	}
	command, err := r.command()
	if err != nil {
		c.w.fail("%s can not be asked for: %v", r.what, err)
		return nil
	}
	result, known := c.state.Remembered(r.id(), kindOf(command))
	if !known {
		if result, err = c.Propose(ctx, command, r.id()); err != nil {
			return nil
		}
	}
	return func() { r.learn(&result) }
}

// noteWaiting counts for what jobs wait, as their users are told.
func (c *controller) noteWaiting(view *state.View, job *state.Job) {
	if job.Phase != state.Waiting {
		return
	}
	overlay, _ := c.leader.Overlay(job.ID)
	word, _, _ := strings.Cut(view.JobMessage(job, overlay, state.JobDetail{}).GetReason(), ",")
	c.w.Waited[word]++
}

func (r *request) learn(result *state.Result) {
	r.jobID = result.JobID
	if result.Refused != nil {
		r.refused = result.Refused.Message
		r.w.trace("user", "%s is refused: %s", r.what, r.refused)
	}
	r.phase = history.Waiting
	for _, one := range result.Jobs {
		r.ok = one.Code == state.OK || one.Code == state.AlreadyDone
		if one.Code == state.NotFound {
			r.phase = history.Missing
		}
	}
}

var phases = map[state.Phase]history.Phase{
	state.Waiting: history.Waiting, state.Running: history.Running, state.Ending: history.Ending, state.Finished: history.Over,
}

func kindOf(command state.Command) state.Kind {
	switch command.(type) {
	case state.SubmitJob:
		return state.KindSubmitJob
	case state.CancelJobs:
		return state.KindCancelJobs
	case state.RequeueJobs:
		return state.KindRequeueJobs
	case state.HoldJobs:
		return state.KindHoldJobs
	case state.ReleaseJobs:
		return state.KindReleaseJobs
	case state.UpdateJobs:
		return state.KindUpdateJobs
	case state.ChangeAccounts:
		return state.KindChangeAccounts
	case state.UpdateNodes:
		return state.KindUpdateNodes
	case state.SaveJobs:
		return state.KindSaveJobs
	case state.SuspendJobs:
		return state.KindSuspendJobs
	case state.ResumeJobs:
		return state.KindResumeJobs
	default:
		return state.KindApplyPolicy
	}
}

func identity(uid uint32) *pb.Identity {
	return &pb.Identity{Uid: uid, Gid: uid, User: "user" + string(rune('a'+uid%26)), Home: "/", Shell: "/bin/sh"}
}
