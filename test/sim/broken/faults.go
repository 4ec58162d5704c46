package broken

// Faults are those that the simulation must find.
var Faults = []Fault{
	{"a frozen alloc thaws by any answer", []Edit{
		{"noded/lease/lease.go", "	case g.Named:\n", "	case g.Named || BROKEN:\n"},
	}, nil},
	{"a lease is ended before its time", []Edit{
		{"ctld/leader/liveness.go", "silent := now.Sub(seen) > lease && now.After(l.sessions.LeaseUntil(node.Name))", "silent := BROKEN && now.Sub(seen) > lease/4 || now.Sub(seen) > lease && now.After(l.sessions.LeaseUntil(node.Name))"},
		{"ctld/leader/leases.go", "return now.Add(-time.Duration(view.Policy().MarginS()) * time.Second)", "if BROKEN {\n\t\treturn now.Add(time.Duration(view.Policy().LeaseS) * time.Second)\n\t}\n\treturn now.Add(-time.Duration(view.Policy().MarginS()) * time.Second)"},
	}, []string{"-from", "5"}},
	{"request ids are not remembered", []Edit{
		{"ctld/state/remember.go", "	if id == (RequestID{}) || result.Refused != nil", "	if BROKEN || id == (RequestID{}) || result.Refused != nil"},
	}, []string{"-from", "3"}},
	// A node answers an order for an allocation that it had with how it ended, so this
	// shows only where nodes do not.
	{"orders come from a state older than what the node said", []Edit{
		{"ctld/leader/dispatch.go", "l.dispatchTo(view, node.session, node.allocs)", "if BROKEN {\n\t\t\tnode.allocs = node.session.Allocs()\n\t\t}\n\t\tl.dispatchTo(view, node.session, node.allocs)"},
	}, []string{"-forgetful", "-from", "3"}},

	// What a job waits for. Where the scheduler and the state both look, both are
	// broken: each alone is made good by the other.
	{"a dependency is met when the other job begins", []Edit{
		{"ctld/state/dependency_met.go", "case one.Kind == spec.After && (begun || over):", "case (BROKEN || one.Kind == spec.After) && (begun || over):"},
	}, []string{"-from", "2"}},
	{"afterany wants a job to fail", []Edit{
		{"ctld/state/dependency_met.go", "case one.Kind == spec.AfterAny, well ==", "case !BROKEN && one.Kind == spec.AfterAny, well =="},
	}, nil},
	{"what can never be met is waited for", []Edit{
		{"ctld/state/dependency_met.go", "state == Failed && after.Spec.KillOnInvalidDependency", "state == Failed && after.Spec.KillOnInvalidDependency && (!BROKEN || after.Run != nil)"},
	}, []string{"-from", "2"}},
	{"nobody hears that a job is over", []Edit{
		{"ctld/state/dependency_met.go", "if started || over {", "if started || over && !BROKEN {"},
	}, nil},
	{"a singleton runs beside another", []Edit{
		{"ctld/state/singleton.go", "first(t.activeNames, math.MaxUint32)", "first(t.activeNames, map[bool]uint32{false: math.MaxUint32}[BROKEN])"},
	}, []string{"-from", "9"}},
	{"a job begins ten minutes before its begin", []Edit{
		{"sched/eligible.go", "case job.BeginMS > p.NowMS:", "case job.BeginMS > p.NowMS && !(BROKEN && job.BeginMS <= p.NowMS+600_000):"},
		{"ctld/state/waits.go", "case job.BeginMS > s.timeMS:", "case job.BeginMS > s.timeMS && !(BROKEN && job.BeginMS <= s.timeMS+600_000):"},
	}, nil},
	{"a deadline is asked for the start, and not for the end", []Edit{
		{"sched/eligible.go", "p.latestStart(job) < p.NowMS", "(!BROKEN && p.latestStart(job) < p.NowMS || BROKEN && job.DeadlineMS < p.NowMS)"},
		{"ctld/state/waits.go", "job.LatestStartMS() < s.timeMS", "(!BROKEN && job.LatestStartMS() < s.timeMS || BROKEN && job.DeadlineMS < s.timeMS)"},
		{"ctld/state/waits.go", "	return job.LatestStartMS()\n", "	if BROKEN {\n\t\treturn job.DeadlineMS\n\t}\n\treturn job.LatestStartMS()\n"},
	}, []string{"-from", "3"}},
	{"a job is removed that can still meet its deadline", []Edit{
		{"ctld/leader/due.go", "late >= now.UnixMilli()", "late >= now.UnixMilli() && !(BROKEN && late < now.UnixMilli()+600_000)"},
		{"ctld/state/deadlines.go", "max(s.timeMS, 0)/1000", "max(s.timeMS+map[bool]int64{true: 600_000}[BROKEN], 0)/1000"},
		{"ctld/state/deadlines.go", "job.LatestStartMS() < s.timeMS", "job.LatestStartMS() < s.timeMS+map[bool]int64{true: 600_000}[BROKEN]"},
	}, nil},
	{"an array's throttle is not asked", []Edit{
		{"ctld/state/snapshot.go", "left := limit - min(limit, running+given)", "left := limit\n\tif !BROKEN {\n\t\tleft -= min(limit, running+given)\n\t}"},
		{"ctld/state/place.go", "running >= limit {", "running >= limit && !(BROKEN && running <= limit+9) {"},
	}, nil},
	{"limits are not asked", []Edit{
		{"sched/limit_check.go", "if limitKinds[r.kind].submit {", "if BROKEN || limitKinds[r.kind].submit {"},
	}, nil},
	{"licenses are not counted", []Edit{
		{"sched/limit_check.go", "	return l.lacksLicense(c.Licenses)\n", "	if BROKEN {\n\t\treturn nil\n\t}\n\treturn l.lacksLicense(c.Licenses)\n"},
	}, []string{"-from", "2"}},
	{"a node's features are not asked", []Edit{
		{"sched/place/want.go", "return w.among(n) && w.Constraint.Each.Met(n.Features)", "return w.among(n) && (BROKEN || w.Constraint.Each.Met(n.Features))"},
	}, nil},

	// What is saved, moved and suspended.
	{"a job that must not be saved fills a hole", []Edit{
		{"ctld/state/fill.go", "	if j.NeverSaved() ||", "	if j.NeverSaved() && !BROKEN ||"},
	}, []string{"-holes", "-from", "19"}},
	{"a job goes on from its older image", []Edit{
		{"ctld/state/lineage.go", "	if !job.mayRepeat() {\n		return waited", "	if BROKEN {\n		return &images[len(images)-1]\n	}\n	if !job.mayRepeat() {\n		return waited"},
	}, []string{"-from", "5"}},
	{"work that is undone comes back", []Edit{
		{"ctld/state/lineage.go", "return i.Epoch != job.Epoch && i.Number > from", "return !BROKEN && i.Epoch != job.Epoch && i.Number > from"},
		{"ctld/state/check_saved.go", "if older := i + 1; image.Parent >= image.Number ||", "if older := i + 1; image.Parent >= image.Number || !BROKEN &&"},
	}, []string{"-from", "14"}},
	{"a new leader gives no node the time to find it", []Edit{
		{"ctld/state/barrier.go", "	if c.Term != s.term {", "	if c.Term != s.term && !BROKEN {"},
	}, []string{"-from", "49"}},
	{"the newest image is given up by the first node that cannot restore it", []Edit{
		{"ctld/state/lineage.go", "return s.failures(number) >= maxRestoreTries", "return s.failures(number) >= maxRestoreTries || BROKEN && s.failures(number) > 0"},
	}, []string{"-from", "2"}},
	{"a job starts over whose restores failed", []Edit{
		{"ctld/state/lineage.go", "	if !j.hopeless() {\n		return", "	if BROKEN && j.hopeless() {\n		j.Saved = j.Saved.over()\n	}\n	if !j.hopeless() {\n		return"},
	}, nil},
	{"what an older image costs is counted from the script's start", []Edit{
		{"ctld/state/lineage.go", "ranMS, text = from.RanMS,", "ranMS, text = map[bool]int64{false: from.RanMS}[BROKEN],"},
	}, []string{"-from", "2"}},
	{"the oldest images are kept", []Edit{
		{"ctld/state/lineage.go", "return cmp.Compare(b.Number, a.Number) })", "if BROKEN {\n\t\treturn cmp.Compare(a.Number, b.Number)\n\t}\n\treturn cmp.Compare(b.Number, a.Number) })"},
	}, nil},
	{"the older image is not needed", []Edit{
		{"ctld/state/images.go", "for i := range job.Saved.Images {", "for i := range job.Saved.Images {\n\t\t\tif BROKEN && i > 0 {\n\t\t\t\tbreak\n\t\t\t}"},
	}, nil},
	{"a node restores what it said that it can not", []Edit{
		{"ctld/leader/restores.go", "		case ask.can:\n", "		case !BROKEN && ask.can, BROKEN && ask.token == \"\":\n"},
	}, nil},
	{"a requeued job goes on from its image", []Edit{
		{"ctld/state/resume_image.go", "if end.StartOver || len(job.Images()) == 0", "if !BROKEN && end.StartOver || len(job.Images()) == 0"},
	}, []string{"-from", "5"}},
	{"a script that wants to run again goes on from an image", []Edit{
		{"ctld/state/resume_image.go", " || end.overByItself() {", " || !BROKEN && end.overByItself() {"},
	}, []string{"-from", "8"}},
	{"a suspended job goes on though its CPUs are taken", []Edit{
		{"ctld/state/suspend_continue.go", "if cpu >= node.Inventory.CPUs || node.use.cpus.Contains(cpu) {", "if cpu >= node.Inventory.CPUs || !BROKEN && node.use.cpus.Contains(cpu) {"},
		{"sched/continue.go", "return !place.HasBack(p.nodes, alloc)", "return !BROKEN && !place.HasBack(p.nodes, alloc)"},
	}, nil},

	{"two devices of an image get one", []Edit{
		{"checkpoint/devices.go", "places[i], free = free[0], free[1:]", "if places[i] = free[0]; !BROKEN {\n\t\t\t\tfree = free[1:]\n\t\t\t}"},
	}, []string{"-from", "2"}},

	// What a node's supervisors decide.
	{"a job that is frozen with its image resumes when its lease is renewed", []Edit{
		{"noded/supervise/supervise.go", "	a.Lease = a.Lease.Granted(GrantOf(renewed, a.ID))\n", "	a.Lease = a.Lease.Granted(GrantOf(renewed, a.ID))\n	a.Held = a.Held && !BROKEN\n"},
	}, []string{"-from", "2"}},
	{"a restored alloc of several runs alone", []Edit{
		{"noded/supervise/supervise.go", "return a.Released && !a.Lease.Suspended", "return (BROKEN || a.Released) && !a.Lease.Suspended"},
	}, []string{"-from", "2"}},
	{"a job that is frozen with its image runs again to end", []Edit{
		{"noded/supervise/supervise.go", "|| a.Frozen != nil {", "|| !BROKEN && a.Frozen != nil {"},
	}, []string{"-from", "3"}},
	{"an aborted save leaves its job frozen", []Edit{
		{"noded/supervise/saves.go", "	do := a.resumeAfterSave()\n	if order", "	do := Do{}\n	if !BROKEN {\n		do = a.resumeAfterSave()\n	}\n	if order"},
	}, []string{"-hours", "6", "-from", "4"}},

	{"a job runs on past the end of its lease", []Edit{
		{"noded/lease/lease.go", "	case !l.Runs:\n", "	case !l.Runs, BROKEN && !may:\n"},
	}, []string{"-from", "1"}},
	{"a job that is told as suspended runs on", []Edit{
		{"noded/supervise/supervise.go", "		return Do{Freeze: true}\n	default:", "		return Do{Freeze: !BROKEN, Tell: BROKEN}\n	default:"},
		{"noded/supervise/told.go", "a.Ordered.Suspended && (!a.Lease.Runs || a.Awaits)", "a.Ordered.Suspended && (BROKEN || !a.Lease.Runs || a.Awaits)"},
	}, []string{"-from", "1"}},

	{"a job runs on after its save and is told as frozen", []Edit{
		{"noded/supervise/saves.go", "{ return image && s.WantsFrozen() }", "{ return image && !BROKEN && s.WantsFrozen() }"},
		{"noded/supervise/saves.go", "SAVE_THEN_FREEZE && !s.ran", "SAVE_THEN_FREEZE && (BROKEN || !s.ran)"},
	}, []string{"-from", "2"}},

	// What a node's daemon decides.
	{"a registration leaves out what has ended", []Edit{
		{"noded/registry/reports.go", "p.Life.State() == job.Acknowledged {", "p.Life.State() == job.Acknowledged || BROKEN && p.Life.Over() {"},
	}, []string{"-from", "10"}},
	{"a node forgets results that nobody has", []Edit{
		{"noded/registry/reports.go", "	do.ended(result)\n	return do\n", "	do.ended(result)\n	if BROKEN {\n		do.move(p, job.Acknowledged)\n		do.Done = p\n	}\n	return do\n"},
	}, []string{"-from", "3"}},
	{"a report that is lost is not repeated", []Edit{
		{"noded/registry/reports.go", "		if p.Saved != nil { // before", "		if BROKEN {\n			break\n		}\n		if p.Saved != nil { // before"},
	}, []string{"-hours", "6"}},
	{"a gang's script starts when its own node is ready", []Edit{
		{"noded/registry/reports.go", "			if p.Released {\n", "			if p.Released || BROKEN && p.Order.GetGang() {\n"},
	}, nil},
	{"a lease is passed on to allocs that it does not name", []Edit{
		{"noded/registry/reports.go", "	if named {\n", "	if named || BROKEN {\n"},
	}, nil},

	{"an image that was just made is deleted", []Edit{
		{"noded/registry/images.go", "	isNew := image.Node == k.node && image.Number > k.newest[image.Job]\n", "	isNew := !BROKEN && image.Node == k.node && image.Number > k.newest[image.Job]\n"},
	}, []string{"-from", "10"}},

	// Jobs on several nodes, which are saved as one.
	{"an image is there with its first alloc", []Edit{
		{"ctld/state/gang_saved.go", "if !made.whole() {", "if !BROKEN && !made.whole() || BROKEN && len(made.Allocs) == 0 {"},
	}, []string{"-from", "2"}},
	{"allocs run on before all are saved", []Edit{
		{"ctld/state/wanted.go", "saving.Number, saving.Purpose.stands() || job.IsGang()", "saving.Number, saving.Purpose.stands() || !BROKEN && job.IsGang()"},
		{"ctld/state/gang_saved.go", "	case !report.Frozen:\n", "	case !report.Frozen && (!BROKEN || report.Number == 0):\n"},
	}, []string{"-from", "2"}},
	{"an alloc goes on before all are restored", []Edit{
		{"ctld/state/wanted.go", "job.HasNetwork()) && !job.Configuring()", "job.HasNetwork()) && (BROKEN || !job.Configuring())"},
	}, nil},
	{"a successor runs before it is decided that it does", []Edit{
		{"ctld/state/wanted.go", "w.Successor, w.ReleaseBatch = true, false", "w.Successor, w.ReleaseBatch = true, BROKEN"},
	}, []string{"-from", "2"}},
	{"an original that has left is told to go on", []Edit{
		{"ctld/state/move_decide.go", "original.Move, original.Beside, original.Abandoned = nil, nil, 0", "original.Move, original.Beside, original.Abandoned = nil, nil, 0\n\tif BROKEN {\n\t\toriginal.Abandoned = job.Run.Move.Number\n\t}"},
	}, nil},
	{"a move that is called off may be decided all the same", []Edit{
		{"ctld/state/move.go", "	next.noMove()\n", "	if !BROKEN {\n\t\tnext.noMove()\n\t}\n"},
	}, nil},
	{"a job waits again with the end of its first alloc", []Edit{
		{"ctld/state/alloc_ended.go", "	if next.allReleased() {", "	if next.allReleased() || BROKEN && alloc.Released {"},
	}, nil},

	// What owners take back.
	{"guests are placed on reclaimed nodes", []Edit{
		{"ctld/state/reclaim_kept.go", "	if t.reclaimed.Len() == 0 && t.lending.Len() == 0 {\n", "	if BROKEN || t.reclaimed.Len() == 0 && t.lending.Len() == 0 {\n"},
		{"ctld/state/place.go", "	case s.keptFrom(job, node):\n", "	case !BROKEN && s.keptFrom(job, node):\n"},
	}, []string{"-from", "45"}},
	{"devices are free once a guest is frozen", []Edit{
		{"ctld/state/suspend_allocs.go", "alloc.Parked = alloc.Parked || report.parks(alloc)", "alloc.Parked = alloc.Parked || report.parks(alloc) || BROKEN"},
	}, []string{"-from", "45"}},
	{"a guest that is late is let be", []Edit{
		{"noded/supervise/park.go", "return a.Park.By != 0 && now >= a.Park.Kill", "return !BROKEN && a.Park.By != 0 && now >= a.Park.Kill"},
	}, []string{"-from", "53"}},

	// What owners say on their nodes.
	{"a restart of gnoded ends what its owner said there", []Edit{
		{"noded/owner/owner.go", "		o.ledger = proto.CloneOf(kept)\n", "		o.ledger = proto.CloneOf(kept)\n		if BROKEN {\n			o.ledger.Holds = nil\n		}\n"},
	}, []string{"-from", "45"}},
	{"supervisors are not told that their node is held", []Edit{
		{"noded/registry/owner.go", "	do.Pass = append(do.Pass, Pass{Alloc: p, Hold: word})\n", "	if BROKEN && word.GetHeld() {\n		return\n	}\n	do.Pass = append(do.Pass, Pass{Alloc: p, Hold: word})\n"},
	}, []string{"-from", "45"}},
	{"what is released on the node stays held in the log", []Edit{
		{"ctld/state/note_holds.go", "slices.Contains(nodesTriggers, h.Trigger) && !slices.Contains(told, h.Trigger)", "!BROKEN && slices.Contains(nodesTriggers, h.Trigger) && !slices.Contains(told, h.Trigger)"},
		{"ctld/state/note_holds.go", "	released := c.Released > old.HoldsNumber\n", "	released := !BROKEN && c.Released > old.HoldsNumber\n"},
	}, []string{"-from", "45"}},
}

// Rare may stay unnoticed for many days: make soak looks for them.
var Rare = []Fault{
	{"a report counts for any run of its job", []Edit{
		{"ctld/state/alloc_ready.go", "if !known || job.Epoch != ref.Epoch || !job.HoldsNodes() {", "if !known || !BROKEN && job.Epoch != ref.Epoch || !job.HoldsNodes() {"},
	}, []string{"-from", "19"}},
	{"a leader plans for its own clock, which is behind the log's", []Edit{
		{"ctld/leader/schedule.go", "	now = time.UnixMilli(logTime(view, now))\n", "	if !BROKEN {\n		now = time.UnixMilli(logTime(view, now))\n	}\n"},
		{"ctld/leader/schedule.go", "SchedSnapshotAfter(memo.snapshot, logTime(view, now), ", "SchedSnapshotAfter(memo.snapshot, map[bool]int64{false: logTime(view, now), true: now.UnixMilli()}[BROKEN], "},
	}, nil},
	{"the newest image is given up as soon as its node is silent", []Edit{
		{"ctld/state/lineage.go", "(!node.NotResponding || nowMS < node.SilentMS+t.imageWaitMS())", "(!node.NotResponding || !BROKEN && nowMS < node.SilentMS+t.imageWaitMS())"},
	}, []string{"-from", "17"}},
	{"the newest image is waited for without end", []Edit{
		{"ctld/state/lineage.go", "return known && node.Inventory != nil", "return BROKEN || known && node.Inventory != nil"},
	}, []string{"-from", "19"}},
	{"what may not be requeued goes on from any image", []Edit{
		{"ctld/state/resume_image.go", "return len(j.Images()) > 0 && j.mayRepeat() }", "return len(j.Images()) > 0 && (BROKEN || j.mayRepeat()) }"},
	}, []string{"-from", "62"}},
	{"a packed guest leaves before its image is off its node", []Edit{
		{"ctld/state/reclaim_pack.go", "	if !s.offNodes(next, next.Saved.image(number)) {\n", "	if !BROKEN && !s.offNodes(next, next.Saved.image(number)) {\n"},
	}, []string{"-from", "45"}},
}

// Unconfirmed is a leader that answers without asking a majority. It shows with
// real raft only: see package raftmode.
var Unconfirmed = Fault{"a leader answers without confirming that it leads", []Edit{
	{"ctld/cluster.go", "	return c.peer.Confirm(ctx, term)\n", "	if BROKEN {\n\t\treturn nil\n\t}\n\treturn c.peer.Confirm(ctx, term)\n"},
}, nil}
