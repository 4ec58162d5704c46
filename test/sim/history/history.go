// Package history checks what the API answered: whether there is an order of
// all requests, each somewhere between its call and its answer, in which every
// answer is right (linearizability, by porcupine).
//
// Contract: Check is given every request about jobs that was made, those
// without an answer included, with times of one clock that all callers share.
// Jobs are independent of each other, so each is checked by itself, which
// keeps it quick. The model knows what users may rely on, not how a controller
// does it: a job exists from its submission on, its runs only count up, what
// is over or cancelled does not run again unless it is requeued.
package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind says what was asked for.
type Kind uint8

// Kinds of request.
const (
	Submit Kind = iota
	Query
	Cancel
	Requeue
)

// Phase is what a query says of a job.
type Phase uint8

// Phases. Missing is also the answer to a cancel or requeue of a job that
// nobody knows.
const (
	Missing Phase = iota
	Waiting
	Running
	Ending
	Over
)

// Operation is one request.
type Operation struct {
	Client       int
	Kind         Kind
	Job          uint32
	Call, Return time.Duration
	Unknown      bool // it was not answered: it took effect after Call, or never

	Done  bool  // of a cancel or requeue: it was carried out, or was so already
	Phase Phase // of a query
	Epoch uint32
	// Forgotten: the job was purged, or may have been, before Return.
	Forgotten bool
}

// String is for who reads why a history is wrong.
func (o Operation) String() string {
	names := [...]string{"submit", "query", "cancel", "requeue"}
	phases := [...]string{"missing", "waiting", "running", "ending", "over"}
	answer := fmt.Sprintf("%s epoch %d", phases[o.Phase], o.Epoch)
	switch {
	case o.Unknown:
		answer = "no answer"
	case o.Kind != Query:
		answer = fmt.Sprintf("done %t, %s", o.Done, phases[o.Phase])
	}
	return fmt.Sprintf("client %d %s job %d from %v to %v: %s", o.Client, names[o.Kind], o.Job, o.Call, o.Return, answer)
}

// known is what can be relied on of one job.
type known struct {
	exists bool
	gone   bool // was seen to be forgotten
	ended  bool // over, or about to be: it may not wait or run
	over   bool
	epoch  uint32
}

// Check answers nil when the history is right, else an error that names the
// first job of which it is not, with its requests.
func Check(operations []Operation) error {
	byJob := map[uint32][]Operation{}
	var order []uint32
	for _, o := range operations {
		if byJob[o.Job] == nil {
			order = append(order, o.Job)
		}
		byJob[o.Job] = append(byJob[o.Job], o)
	}
	for _, job := range order {
		if !porcupine.CheckOperations(model, events(byJob[job])) {
			text := fmt.Sprintf("no order of the requests about job %d explains their answers:", job)
			for _, o := range byJob[job] {
				text += "\n  " + o.String()
			}
			return fmt.Errorf("not linearizable: %s", text)
		}
	}
	return nil
}

func events(operations []Operation) []porcupine.Operation {
	events := make([]porcupine.Operation, len(operations))
	for i, o := range operations {
		end := int64(o.Return)
		if o.Unknown {
			end = math.MaxInt64
		}
		events[i] = porcupine.Operation{ClientId: i, Input: o, Call: int64(o.Call), Output: o, Return: end}
	}
	return events
}

var nondeterministic = porcupine.NondeterministicModel{
	Init: func() []any { return []any{known{}} },
	Step: func(state, input, _ any) []any { return step(state.(known), input.(Operation)) },
}

var model = nondeterministic.ToModel()

// step answers what may be so after a request that was answered like this.
func step(k known, o Operation) []any {
	switch o.Kind {
	case Submit:
		k.exists = true
		return []any{k}
	case Query:
		return query(k, o)
	}
	if !o.Unknown && o.Phase == Missing {
		return missing(k, o)
	}
	after := k
	if o.Kind == Cancel {
		after.ended = true
	} else {
		after.ended, after.over = false, false
	}
	switch {
	case o.Unknown:
		return []any{k, after}
	case !k.exists || k.gone:
		return nil
	case !o.Done:
		return []any{k}
	default:
		return []any{after}
	}
}

func missing(k known, o Operation) []any {
	if k.exists && !k.gone && !o.Forgotten {
		return nil
	}
	k.gone = k.exists
	return []any{k}
}

func query(k known, o Operation) []any {
	if o.Unknown {
		return []any{k}
	}
	if o.Phase == Missing {
		return missing(k, o)
	}
	waitsOrRuns := o.Phase == Waiting || o.Phase == Running
	switch {
	case !k.exists || k.gone || o.Epoch < k.epoch:
		return nil
	case k.ended && waitsOrRuns, k.over && o.Phase != Over:
		return nil
	}
	k.epoch = o.Epoch
	if o.Phase == Over {
		k.ended, k.over = true, true
	}
	return []any{k}
}
