package broken

// Faults are those that the simulation must find.
var Faults = []Fault{
	{"a frozen part thaws by any answer", []Edit{
		{"noded/lease/lease.go", "	case g.Named:\n", "	case true:\n"},
	}, nil},
	{"a lease is ended before its time", []Edit{
		{"ctld/leader/liveness.go", "silent := now.Sub(seen) > lease && now.After(l.sessions.LeaseUntil(node.Name))", "silent := now.Sub(seen) > lease/4"},
		{"ctld/leader/leases.go", "return now.Add(-time.Duration(view.Policy().MarginS()) * time.Second)", "return now.Add(time.Duration(view.Policy().LeaseS) * time.Second)"},
	}, nil},
	{"a report counts for any run of its job", []Edit{
		{"ctld/state/part_ready.go", "if !known || job.Epoch != ref.Epoch || !job.HoldsNodes() {", "if !known || !job.HoldsNodes() {"},
	}, nil},
	{"request ids are not remembered", []Edit{
		{"ctld/state/remember.go", "	if id == (RequestID{}) || result.Refused != nil", "	if id == id || result.Refused != nil"},
	}, nil},
	// A node answers an order for a part that it had with how it ended, so this
	// shows only where nodes do not.
	{"orders come from a state older than what the node said", []Edit{
		{"ctld/leader/dispatch.go", "l.dispatchTo(view, node.session, node.parts)", "l.dispatchTo(view, node.session, node.session.Parts())"},
	}, []string{"-forgetful"}},

	// What a job waits for. Where the scheduler and the state both look, both are
	// broken: each alone is made good by the other.
	{"a dependency is met when the other job begins", []Edit{
		{"ctld/state/dependency_met.go", "case one.Kind == spec.After && (begun || over):", "case begun || over:"},
	}, nil},
	{"afterany wants a job to fail", []Edit{
		{"ctld/state/dependency_met.go", "case one.Kind == spec.AfterAny, well ==", "case well =="},
	}, nil},
	{"what can never be met is waited for", []Edit{
		{"ctld/state/dependency_met.go", "state == Failed && after.Spec.KillOnInvalidDependency", "state == Failed && after.Spec.KillOnInvalidDependency && after.Run != nil"},
	}, nil},
	{"nobody hears that a job is over", []Edit{
		{"ctld/state/dependency_met.go", "if started || over {", "if started || over && s.timeMS < 0 {"},
	}, nil},
	{"a singleton runs beside another", []Edit{
		{"ctld/state/singleton.go", "first(t.activeNames, math.MaxUint32)", "first(t.activeNames, 0)"},
	}, nil},
	{"a job begins ten minutes before its begin", []Edit{
		{"sched/eligible.go", "case job.BeginMS > p.NowMS:", "case job.BeginMS > p.NowMS+600_000:"},
		{"ctld/state/waits.go", "case job.BeginMS > s.timeMS:", "case job.BeginMS > s.timeMS+600_000:"},
	}, nil},
	{"a deadline is asked for the start, and not for the end", []Edit{
		{"sched/eligible.go", "p.latestStart(job) < p.NowMS", "job.DeadlineMS < p.NowMS"},
		{"ctld/state/waits.go", "job.latestStartMS() < s.timeMS", "job.DeadlineMS < s.timeMS"},
		{"ctld/state/waits.go", "	return job.latestStartMS()\n", "	return job.DeadlineMS\n"},
	}, nil},
	{"a job is removed that can still meet its deadline", []Edit{
		{"ctld/leader/due.go", "late >= now.UnixMilli()", "late >= now.UnixMilli()+600_000"},
		{"ctld/state/deadlines.go", "max(s.timeMS, 0)/1000", "max(s.timeMS+600_000, 0)/1000"},
		{"ctld/state/deadlines.go", "job.latestStartMS() < s.timeMS", "job.latestStartMS() < s.timeMS+600_000"},
	}, nil},
	{"an array's throttle is not asked", []Edit{
		{"ctld/state/snapshot.go", "left := limit - min(limit, running+given)", "left := limit + 0*running"},
		{"ctld/state/place.go", "running >= limit {", "running > limit+9 {"},
	}, nil},
	{"limits are not asked", []Edit{
		{"sched/limit_check.go", "if limitKinds[r.kind].submit {", "if true {"},
	}, nil},
	{"licenses are not counted", []Edit{
		{"sched/limit_check.go", "	return l.lacksLicense(c.Licenses)\n", "	return nil\n"},
	}, nil},
	{"a node's features are not asked", []Edit{
		{"sched/place/want.go", "return w.among(n) && w.Constraint.Each.Met(n.Features)", "return w.among(n)"},
	}, nil},

	// What is saved, moved and suspended.
	{"a job goes on from its older image", []Edit{
		{"ctld/state/go_on.go", "best, fewest := &images[0], j.Saved.failures(images[0].Number)", "best, fewest := &images[len(images)-1], j.Saved.failures(images[len(images)-1].Number)-1"},
	}, nil},
	{"the oldest images are kept", []Edit{
		{"ctld/state/saved.go", "return cmp.Compare(b.Number, a.Number) })", "return cmp.Compare(a.Number, b.Number) })"},
	}, nil},
	{"the older image is not needed", []Edit{
		{"ctld/state/images.go", "for i := range job.Saved.Images {", "for i := range job.Saved.Images[:1] {"},
	}, nil},
	{"a node restores what it said that it can not", []Edit{
		{"ctld/leader/restores.go", "		case ask.can:\n", "		case ask.token == \"\":\n"},
	}, nil},
	{"what may not be requeued goes on from any image", []Edit{
		{"ctld/state/go_on.go", "return len(j.Images()) > 0 && j.mayRepeat() }", "return len(j.Images()) > 0 }"},
	}, nil},
	{"a requeued job goes on from its image", []Edit{
		{"ctld/state/go_on.go", "if end.StartOver || len(job.Images()) == 0", "if len(job.Images()) == 0"},
	}, nil},
	{"a script that wants to run again goes on from an image", []Edit{
		{"ctld/state/go_on.go", " || end.overByItself() {", " {"},
	}, nil},
	{"a suspended job goes on though its CPUs are taken", []Edit{
		{"ctld/state/suspend_continue.go", "if cpu >= node.Inventory.CPUs || node.use.cpus.Contains(cpu) {", "if cpu >= node.Inventory.CPUs {"},
		{"sched/continue.go", "return !part.CPUs.Minus(p.nodes[part.Node].FreeCPUs).Empty()", "return part.CPUs.Empty()"},
	}, nil},

	// Jobs on several nodes, which are saved as one.
	{"an image is there with its first part", []Edit{
		{"ctld/state/gang_saved.go", "if !made.whole() {", "if len(made.Parts) == 0 {"},
	}, nil},
	{"parts run on before all are saved", []Edit{
		{"ctld/state/wanted.go", "saving.Number, saving.Purpose.stands() || job.IsGang()", "saving.Number, saving.Purpose.stands()"},
		{"ctld/state/gang_saved.go", "	case !report.Stands:\n", "	case !report.Stands && report.Number == 0:\n"},
	}, nil},
	{"a part goes on before all are restored", []Edit{
		{"ctld/state/wanted.go", "job.Run.Restore != nil) && !job.Configuring()", "job.Run.Restore != nil)"},
	}, nil},
	{"a job waits again with the end of its first part", []Edit{
		{"ctld/state/part_ended.go", "	if next.allReleased() {", "	if part.Released {"},
	}, nil},
}

// Unconfirmed is a leader that answers without asking a majority. It shows with
// real raft only: see package raftmode.
var Unconfirmed = Fault{"a leader answers without confirming that it leads", []Edit{
	{"ctld/cluster.go", "	return c.peer.Confirm(ctx, term)\n", "	return nil\n"},
}, nil}
