package ctld

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// allow refuses a command that not every controller would understand.
func (c *cluster) allow(command state.Command) error {
	need := state.LevelOf(command)
	if _, raises := command.(state.RaiseLevel); raises || need <= state.LevelFirst {
		return nil
	}
	level := c.View().Level()
	if need <= level {
		return nil
	}
	behind := ""
	if ask := c.behind.Load(); ask != nil {
		behind = (*ask)()
	}
	if behind == "" {
		return fmt.Errorf("%w: it is not known yet whether all controllers understand this request", api.ErrNotYet)
	}
	return &state.Refusal{Code: state.Disabled, Message: fmt.Sprintf(
		"this needs feature level %d, and the cluster has %d: controllers must be upgraded first: %s", need, level, behind)}
}
