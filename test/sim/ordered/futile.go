package ordered

import (
	"bytes"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// mostFutile is how often in a row a leader may propose the same command, though it
// changes nothing. It may be overtaken by another command, or find that what it has seen
// is over. A leader that proposes it again and again sees something else than the state
// that it proposes to, and fills the log.
const mostFutile = 10

// futile is the last command of its kind that a leader proposed and that changed nothing.
type futile struct {
	command []byte
	times   int
}

// noteProposal counts the proposals of a leader's own that change nothing.
func (c *controller) noteProposal(command state.Command, result *state.Result) {
	if changes(result) {
		delete(c.futile, result.Kind)
		return
	}
	encoded, err := state.Encode(command, state.RequestID{}, 0)
	if err != nil {
		c.w.fail("%s cannot write a command down: %v", c.name, err)
		return
	}
	last := c.futile[result.Kind]
	if !bytes.Equal(last.command, encoded) {
		last = futile{command: encoded}
	}
	last.times++
	c.futile[result.Kind] = last
	if last.times > mostFutile {
		c.w.fail("futile: %s proposes the same %s for the %dth time in a row, and it changes nothing: %s", c.name, result.Kind, last.times, why(result))
	}
}

func changes(r *state.Result) bool {
	return len(r.ChangedJobs)+len(r.ChangedNodes)+len(r.PurgedJobs) > 0 || r.PolicyChanged || r.AccountsChanged
}

// why is what the state says of a command that changed nothing.
func why(r *state.Result) string {
	switch {
	case r.Refused != nil:
		return r.Refused.Message
	case len(r.Starts) > 0:
		return r.Starts[0].Dropped
	case len(r.Preemptions) > 0:
		return r.Preemptions[0].Dropped
	case len(r.Continued) > 0:
		return r.Continued[0].Dropped
	}
	return "it says nothing"
}
