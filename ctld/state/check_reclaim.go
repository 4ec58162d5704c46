package state

import "fmt"

// checkReclaimed says what is wrong with the reclaim of a node: each guest there was
// told, and a guest whose hardware is said to be free has none.
func (t *tables) checkReclaimed(node *Node) error {
	reclaim := node.Reclaim
	if reclaim == nil {
		return nil
	}
	wrong := func(what string, arguments ...any) error {
		return fmt.Errorf("node %s, reclaim %d: %w", node.Name, reclaim.Number, fmt.Errorf(what, arguments...))
	}
	switch _, indexed := t.reclaimed.Get(node.Name); {
	case !indexed:
		return wrong("it is not in the index")
	case reclaim.Number == 0 || reclaim.Number > t.reclaims:
		return wrong("the last one was %d", t.reclaims)
	case reclaim.DeadlineMS < reclaim.AtMS || len(reclaim.Guests) > maxReclaimedGuests:
		return wrong("its deadline is before it, or it has %d guests", len(reclaim.Guests))
	}
	if err := reclaim.checkHolds(); err != nil {
		return wrong("%w", err)
	}
	for i := range reclaim.Guests {
		guest := &reclaim.Guests[i]
		if guest.FreedMS == 0 {
			continue
		}
		if _, alloc := t.LiveAlloc(AllocRef{guest.Job, guest.Epoch, node.Name}); alloc != nil && !alloc.Parked {
			return wrong("job %d.%d has its hardware, which is said to be free", guest.Job, guest.Epoch)
		}
	}
	return nil
}
