package leader

import (
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// This file has what the leader does about jobs that move: before the nodes of
// a successor are told to restore it, each is asked whether it can. Meanwhile
// the original is frozen, so a node that cannot is given up as soon as it says
// so.

// askMoves asks the nodes of successors about the images of jobs that move,
// adds the questions to what is needed, and returns the moves that cannot
// continue as they are.
func (l *Leader) askMoves(view *state.View, needed map[restoreKey]bool, now time.Time) []state.MoveRef {
	failed := view.LateMoves(now.UnixMilli())
	for job := range view.WithImages {
		successor, image := restoring(job)
		if successor == nil {
			continue
		}
		for alloc := range successor.Run.Allocs {
			node := successor.Run.Allocs[alloc].Node
			needed[restoreKey{image.Allocs[alloc].Digest, node}] = true
			if !successor.Run.Allocs[alloc].Ready {
				l.restores.ask(l.sessions.Get(node), view, job, image, alloc, l.clock())
			}
		}
		if node, why := l.restores.refused(l.sessions, successor, image); why != "" && len(failed) < bounds.MaxTargets {
			failed = append(failed, state.MoveRef{Job: job.ID, Number: image.Number, Epoch: successor.Epoch, Node: node, Reason: why})
		}
	}
	return failed
}

// restoring is the successor of a job that moves, and the image that it resumes
// from; nil when there is none yet.
func restoring(job *state.Job) (*state.Beside, *state.Image) {
	successor := job.Successor()
	if job.Moving() == nil || successor == nil || successor.Run.Restore == nil {
		return nil, nil
	}
	return successor, successor.Run.Restore
}

// refused is a node of a successor that says that it cannot resume its
// allocation of the image, and why. An allocation that is restored has proved
// otherwise.
func (r *restores) refused(sessions *session.Registry, successor *state.Beside, image *state.Image) (node, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for alloc := range successor.Run.Allocs {
		p := &successor.Run.Allocs[alloc]
		ask := r.asks[restoreKey{image.Allocs[alloc].Digest, p.Node}]
		if ask != nil && !p.Ready && ask.session == sessions.Get(p.Node) && ask.token == "" && !ask.can {
			return p.Node, strings.TrimSuffix(ask.reason, ".")
		}
	}
	return "", ""
}

// canSucceed reports whether all nodes of the successor of a job said that they
// can resume it.
func (r *restores) canSucceed(sessions *session.Registry, view *state.View, id uint32) bool {
	job, known := view.Job(id)
	if !known {
		return false
	}
	successor, image := restoring(job)
	if successor == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := make([]string, len(successor.Run.Allocs))
	for i := range nodes {
		nodes[i] = successor.Run.Allocs[i].Node
	}
	return r.word(sessions, image, nodes) == saysYes
}
