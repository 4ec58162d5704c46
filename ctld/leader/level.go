package leader

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Members asks all controllers who they are, and what they understand.
type Members interface {
	List(ctx context.Context) *pb.ListPeersResponse
}

// levelEvery is how often controllers that have not been upgraded, or do not
// answer, are asked again; listLimit bounds one round of questions.
const (
	levelEvery = 5 * time.Second
	listLimit  = 10 * time.Second
)

// Know tells the loops whom to ask what they understand. Call it before Lead.
// Without it the feature level stays as it is.
func (l *Leader) Know(members Members) { l.members = members }

// Behind names the controllers that keep the feature level from being raised,
// each with what is wrong; "" while they have not been asked yet.
func (l *Leader) Behind() string {
	if behind := l.behind.Load(); behind != nil {
		return *behind
	}
	return ""
}

// raiseLevel raises the feature level as far as every controller understands.
func (l *Leader) raiseLevel(ctx context.Context) {
	defer l.behind.Store(nil)
	for l.members != nil {
		if l.cluster.View().Level() < state.Newest {
			l.checkLevel(ctx)
		}
		if !pause(ctx, levelEvery) {
			return
		}
	}
}

// checkLevel asks once. One that can not be asked might understand less than
// all others: then nothing is raised.
func (l *Leader) checkLevel(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	inForce := l.cluster.View().Level()
	lowest, behind := commonLevel(l.members.List(limited).GetPeers())
	if lowest > inForce {
		if _, ok := l.propose(ctx, state.RaiseLevel{Level: lowest}); ok {
			l.log.Info("the feature level is raised: controllers of older programs can not take part any more", "level", lowest, "formerly", inForce)
		}
	}
	if behind == "" || ctx.Err() != nil {
		return
	}
	if before := l.behind.Swap(&behind); before == nil || *before != behind {
		l.log.Warn("the feature level stays below what this program understands: upgrade the controllers that are behind", "level", max(lowest, inForce), "understood", state.Newest, "behind", behind)
	}
}

// commonLevel is the newest level that all controllers understand, 0 when that
// is not known, and who understands less than this one.
func commonLevel(peers []*pb.Peer) (lowest state.Level, behind string) {
	lowest = state.Newest
	var names []string
	for _, peer := range peers {
		// One that does not say a level understands the first, if it answers.
		level := max(state.Level(peer.GetLevel()), state.LevelFirst)
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
