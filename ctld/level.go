package ctld

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// levelEvery is how often controllers that have not been upgraded, or do not
// answer, are asked again; listLimit bounds one round of questions, and
// raiseLimit the command that follows.
const (
	levelEvery = 5 * time.Second
	listLimit  = 10 * time.Second
	raiseLimit = 30 * time.Second
)

// allow refuses a command that not every controller would understand.
func (c *cluster) allow(command state.Command) error {
	if _, raises := command.(state.RaiseLevel); raises {
		return nil
	}
	return c.allowLevel(state.LevelOf(command))
}

func (c *cluster) allowLevel(need state.Level) error {
	if need <= state.LevelFirst {
		return nil
	}
	level := c.View().Level()
	if need <= level {
		return nil
	}
	behind := c.behind.Load()
	if behind == nil {
		return fmt.Errorf("%w: it is not known yet whether all controllers understand this request", api.ErrNotYet)
	}
	return &state.Refusal{Code: state.Disabled, Message: fmt.Sprintf(
		"this needs feature level %d, and the cluster has %d: controllers must be upgraded first: %s", need, level, *behind)}
}

// raiseLevel raises the feature level as far as every controller understands,
// while this one leads. list asks all controllers which level they understand.
func (c *cluster) raiseLevel(ctx context.Context, list func(context.Context) *pb.ListPeersResponse) {
	defer c.behind.Store(nil)
	for c.View().Level() < state.Newest {
		limited, cancel := context.WithTimeout(ctx, listLimit)
		lowest, behind := commonLevel(list(limited).GetPeers())
		cancel()
		c.noteLevel(ctx, lowest, behind)
		select {
		case <-ctx.Done():
			return
		case <-time.After(levelEvery):
		}
	}
}

// noteLevel acts on the controllers' answers. A controller that does not answer
// might understand less than all others: then nothing is raised.
func (c *cluster) noteLevel(ctx context.Context, lowest state.Level, behind string) {
	inForce := c.View().Level()
	if lowest > inForce {
		limited, cancel := context.WithTimeout(ctx, raiseLimit)
		defer cancel()
		if _, err := c.Propose(limited, state.RaiseLevel{Level: lowest}, state.RequestID{}); err == nil {
			c.log.Info("the feature level is raised: controllers of older programs cannot take part any more", "level", lowest, "formerly", inForce)
		}
	}
	if behind == "" || ctx.Err() != nil {
		return
	}
	if before := c.behind.Swap(&behind); before == nil || *before != behind {
		c.log.Warn("the feature level stays below what this program understands: upgrade the controllers that are behind", "level", max(lowest, inForce), "understood", state.Newest, "behind", behind)
	}
}

// commonLevel is the newest level that all controllers understand, 0 when that
// is not known, and which controllers understand less than this one.
func commonLevel(peers []*pb.Peer) (lowest state.Level, behind string) {
	lowest = state.Newest
	var names []string
	for _, peer := range peers {
		level := state.Level(peer.GetLevel())
		switch {
		case !peer.GetReachable():
			level = 0
			names = append(names, fmt.Sprintf("%s (does not answer)", peer.GetName()))
		case level < state.Newest:
			names = append(names, fmt.Sprintf("%s (version %s, level %d)", peer.GetName(), peer.GetVersion(), level))
		}
		lowest = min(lowest, level)
	}
	if len(peers) == 0 {
		lowest = 0
	}
	return lowest, strings.Join(names, ", ")
}
