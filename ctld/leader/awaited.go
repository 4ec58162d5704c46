package leader

import (
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxAwaitedShown bounds the names of nodes in one job's reason.
const maxAwaitedShown = 512

// holdAfterRestore gives every waiting job the nodes that a restore waits for
// as its reason. It returns false when it waits for nothing.
func (l *Leader) holdAfterRestore(view *state.View) bool {
	names := view.Awaited()
	if len(names) == 0 {
		return false
	}
	list := spec.FormatHostList(names)
	if len(list) > maxAwaitedShown {
		list = list[:maxAwaitedShown] + "..."
	}
	if last := l.last.Load(); last == nil || last.awaited != list {
		l.log.Warn("nothing starts after the restore until these nodes have registered and ended what is not known here; start gnoded there, or declare fenced what is switched off (gcontrol fence NODE)", "nodes", list)
	}
	l.last.Store(&lastPlan{awaited: list})
	return true
}

// awaitedOverlay is why every job waits while nodes are awaited.
func awaitedOverlay(nodes string) state.Overlay {
	return state.Overlay{
		Reason: "ReqNodeNotAvail, UnavailableNodes:" + nodes,
		Detail: "after a restore nothing starts until these nodes have registered, or are declared fenced: " + nodes,
	}
}
