package leader

// A loop's single step is a method: Plan, Dispatch, CheckLeases, CommitReports,
// Purge, KeepSaved. Lead calls them when there is something to do; a simulation
// calls the same ones in its own time, between Begin and End, when Due says so.

// Begin makes this controller lead: it accepts requests, sessions and reports.
func (l *Leader) Begin() { l.leading.Store(true) }

// End ends its lead. No step may be under way.
func (l *Leader) End() {
	l.leading.Store(false)
	l.sessions.CloseAll()
	l.last.Store(nil)
	l.dirty.take()
	l.power.forget()
	l.restores.forget()
	l.copies.forget()
	l.pulls.forget()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leadership, l.fencing = leadership{}, nil
}

// Due takes what the loops were woken for since: whether there is something to
// plan, to dispatch, and to commit.
func (l *Leader) Due() (plan, dispatch, commit bool) {
	freed, queued := taken(l.freedWake), taken(l.queuedWake)
	return freed || queued, taken(l.dispatchWake), len(l.reports) > 0
}

func taken(channel chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// Sweep marks every connected node for the next Dispatch, and for a message
// that says which images are needed.
func (l *Leader) Sweep() {
	for _, s := range l.sessions.All() {
		l.dirty.add(s.Node())
	}
	l.keepImages()
}
