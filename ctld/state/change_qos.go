package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// QOSFlags are those of sacctmgr(1) that are kept: see QOS.
type QOSFlags uint8

// Flags. Numbers are append-only.
const (
	FlagDenyOnLimit QOSFlags = 1 << iota
	FlagOverPartQOS
	FlagNoDecay
	knownFlags = FlagDenyOnLimit | FlagOverPartQOS | FlagNoDecay
)

// Flags are those that are set.
func (q *QOS) Flags() QOSFlags {
	var flags QOSFlags
	for flag, set := range map[QOSFlags]bool{FlagDenyOnLimit: q.DenyOnLimit, FlagOverPartQOS: q.OverridePartition, FlagNoDecay: q.NoDecay} {
		if set {
			flags |= flag
		}
	}
	return flags
}

func (e *accountEditor) changeQOS(c *AccountChange) *Refusal {
	old, known := e.QOS(c.QOS)
	switch {
	case !known && c.Action != AddRecord:
		return refuse(NotFound, "QOS %s does not exist: there are %s", bounds.Quoted(c.QOS), e.qosNames())
	case known && c.Action == AddRecord:
		return refuse(WrongState, "QOS %s exists already: change it with gacctmgr modify qos %s set …", c.QOS, c.QOS)
	case c.Action == DeleteRecord:
		return e.deleteQOS(c.QOS)
	}
	qos := &QOS{Name: c.QOS, Description: c.QOS}
	if known {
		kept := *old
		qos = &kept
	} else if refused := checkRecordName("qos", c.QOS); refused != nil {
		return refused
	} else if e.qos.Len() >= bounds.MaxQOS {
		return refuse(Exhausted, "there are %d QOS, and cannot be more: delete some first", e.qos.Len())
	}
	if refused := e.fillQOS(qos, c); refused != nil {
		return refused
	}
	e.putQOS(qos)
	if c.Preempts != nil {
		return e.checkPreemptLoop(qos.Name)
	}
	return nil
}

// fillQOS applies a change to a copy.
func (e *accountEditor) fillQOS(qos *QOS, c *AccountChange) *Refusal {
	if c.Description != nil {
		qos.Description = *c.Description
	}
	if c.Priority != nil {
		qos.Priority = *c.Priority
	}
	qos.Limits = qos.Limits.changed(c.Limits)
	if c.Preempts != nil {
		names, refused := c.Preempts.edit(qos.Preempts, e.checkQOSKnownOr(qos.Name))
		if refused != nil {
			return refused
		}
		qos.Preempts = names
	}
	if c.PreemptMode != nil {
		if err := policy.CheckPreemptMode(*c.PreemptMode); err != nil {
			return refuse(Invalid, "preemptmode: %v", err)
		}
		qos.PreemptMode = *c.PreemptMode
	}
	if c.GraceTimeS != nil {
		if *c.GraceTimeS > maxGraceTimeS {
			return refuse(Invalid, "gracetime=%d is too long: at most %d seconds", *c.GraceTimeS, maxGraceTimeS)
		}
		qos.GraceTimeS = *c.GraceTimeS
	}
	qos.DenyOnLimit = (qos.DenyOnLimit || c.FlagsOn&FlagDenyOnLimit != 0) && c.FlagsOff&FlagDenyOnLimit == 0
	qos.OverridePartition = (qos.OverridePartition || c.FlagsOn&FlagOverPartQOS != 0) && c.FlagsOff&FlagOverPartQOS == 0
	qos.NoDecay = (qos.NoDecay || c.FlagsOn&FlagNoDecay != 0) && c.FlagsOff&FlagNoDecay == 0
	if c.ResetUsage {
		qos.Usage = Usage{}
	}
	return qos.fillOptional(c)
}

// Bounds of what a QOS may say: a number beyond them is a typing error.
const (
	maxGraceTimeS     = 24 * 3600
	maxExemptTimeS    = 366 * 24 * 3600
	maxUsageFactorPPM = 1_000_000_000 // a thousand times
)

func (q *QOS) fillOptional(c *AccountChange) *Refusal {
	set := func(field **uint32, value *int64, highest int64, name string) *Refusal {
		switch {
		case value == nil:
		case *value == -1:
			*field = nil
		case *value < 0 || *value > highest:
			return refuse(Invalid, "%s %d is not sensible: at most %d, or -1 to clear it", name, *value, highest)
		default:
			number := uint32(*value)
			*field = &number
		}
		return nil
	}
	if refused := set(&q.ExemptTimeS, c.ExemptTimeS, maxExemptTimeS, "a preemptexempttime in seconds of"); refused != nil {
		return refused
	}
	return set(&q.UsageFactorPPM, c.UsageFactorPPM, maxUsageFactorPPM, "a usagefactor in millionths of")
}

// checkQOSKnownOr refuses an unknown QOS; the one that is being made may name
// itself, which the check of loops refuses in better words.
func (e *accountEditor) checkQOSKnownOr(self string) func(string) *Refusal {
	return func(name string) *Refusal {
		if name == self {
			return nil
		}
		return e.checkQOSKnown(name)
	}
}

// checkPreemptLoop refuses a QOS that could, through others, preempt itself.
func (a *accounting) checkPreemptLoop(start string) *Refusal {
	from := map[string]string{} // the QOS that preempts each
	next := []string{start}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		qos, known := a.QOS(name)
		if !known {
			continue
		}
		for _, victim := range qos.Preempts {
			if victim == start {
				path := start
				for at := name; at != start; at = from[at] {
					path = at + " preempts " + path
				}
				return refuse(Invalid, "QOS Preemption loop detected: %s preempts %s: take one of them out with gacctmgr modify qos %s set preempt-=%s", start, path, name, start)
			}
			if _, seen := from[victim]; !seen {
				from[victim] = name
				next = append(next, victim)
			}
		}
	}
	return nil
}

// deleteQOS refuses while anything names it.
func (e *accountEditor) deleteQOS(name string) *Refusal {
	if name == NormalQOS {
		return refuse(Invalid, "QOS %s cannot be deleted: it is that of jobs for which nothing says another", name)
	}
	if jobs := e.use().qos[name]; jobs > 0 {
		return refuse(WrongState, "QOS %s is in use by %d jobs that wait or run: see them with gqueue -q %s, wait for them or end them, then delete it", name, jobs, name)
	}
	for qos := range e.AllQOS() {
		if slices.Contains(qos.Preempts, name) {
			return refuse(WrongState, "QOS %s is what QOS %s preempts: gacctmgr modify qos %s set preempt-=%s", name, qos.Name, qos.Name, name)
		}
	}
	for association := range values(e.associations) {
		what := describeAssociation(association.Account, association.User, association.Partition)
		modify := "gacctmgr modify account " + association.Account
		if association.User != "" {
			modify = "gacctmgr modify user " + association.User + " account=" + association.Account
		}
		switch {
		case association.DefaultQOS == name:
			return refuse(WrongState, "QOS %s is the default of %s: %s set defaultqos=-1", name, what, modify)
		case slices.Contains(association.QOS, name):
			return refuse(WrongState, "QOS %s is in the list of %s: %s set qos-=%s", name, what, modify, name)
		}
	}
	if partition := e.policy.PartitionWith(func(p *policy.Partition) bool { return p.QOS == name || slices.Contains(p.AllowQOS, name) }); partition != "" {
		return refuse(WrongState, "QOS %s is named by partition %s: take it out of cluster.toml first, then gcontrol apply", name, partition)
	}
	e.dropQOS(name)
	return nil
}
