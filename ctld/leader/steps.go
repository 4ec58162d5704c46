package leader

// A loop's single step is a method: Plan, Dispatch, CheckLeases, CommitReports,
// Purge, KeepSaved. Lead calls them when there is something to do; a simulation calls the
// same ones in a time of its own, between Begin and End, when Due says so.

// Begin makes this controller lead: requests, sessions and reports are taken.
func (l *Leader) Begin() { l.leading.Store(true) }

// End makes it lead no longer. No step may be under way.
func (l *Leader) End() {
	l.leading.Store(false)
	l.sessions.CloseAll()
	l.last.Store(nil)
	l.dirty.take()
	l.power.forget()
	l.restores.forget()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reign, l.fencing = reign{}, nil
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

// Sweep has every connected node looked at by the next Dispatch, and told which
// images are needed.
func (l *Leader) Sweep() {
	for _, s := range l.sessions.All() {
		l.dirty.add(s.Node())
	}
	l.keepImages()
}
