package sched

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The words of dialogues for limits. They come behind the nodes and
// partitions.
//
//	licenses      NAME COUNT
//	qos           NAME [priority=N] [DenyOnLimit] [OverPartQOS] [used=TRES=MINUTES,…] LIMIT=…
//	associations  ACCOUNT [parent=ACCOUNT] LIMIT=…, or USER account=ACCOUNT LIMIT=…
//	enforce       limits, safe or none
//	minutes       N, that go by
//	ended         ID
//	submit        one line as for jobs: whether it is refused for good
//
// LIMITs are sacctmgr's. The tree begins with root.

// limited begins a cluster with limits.
func (d *dialogue) limited() {
	if d.snapshot.TRES == nil {
		d.snapshot.TRES = []string{
			TRESBilling, TRESCPU, TRESGPU, TRESModel + "a100", TRESModel + "v100",
			TRESLicense + "fluent", TRESLicense + "matlab", TRESMemory, TRESNode,
		}
		d.snapshot.Associations = []Association{{Parent: -1, Account: "root", Limits: NoLimits()}}
	}
}

func (d *dialogue) license(words []string) error {
	d.limited()
	d.snapshot.Licenses = append(d.snapshot.Licenses, License{Name: words[0], Total: uint32(number(words[1], 0))})
	return nil
}

func (d *dialogue) enforce(words []string) error {
	d.limited()
	d.snapshot.Accounting = AccountingPolicy{EnforceLimits: words[0] != "none", Safe: words[0] == "safe"}
	return nil
}

func (d *dialogue) minutes(words []string) error {
	d.snapshot.NowMS += int64(number(words[0], 0)) * 60_000
	return nil
}

func (d *dialogue) qos(words []string) error {
	q := QOS{Name: words[0], UsageFactorPPM: 1_000_000, PreemptExemptTimeS: NoLimit, Limits: NoLimits()}
	var err error
	for _, word := range words[1:] {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "priority":
			q.Priority = uint32(number(value, 0))
		case "OverPartQOS":
			q.OverridesPartition = true
		case "UsageFactor":
			q.UsageFactorPPM = uint32(number(value, 0)) * 1_000_000
		case "used":
			q.Used, err = d.used(value)
		case "mode", "grace", "exempt", "preempts":
			d.preemptWord(&q, name, value)
		default:
			err = d.setLimit(&q.Limits, name, value)
		}
		if err != nil {
			return err
		}
	}
	at, known := d.findQOS(q.Name)
	if !known {
		d.snapshot.QOS = append(d.snapshot.QOS, q)
	} else {
		d.snapshot.QOS[at] = q
	}
	return nil
}

func (d *dialogue) findQOS(name string) (int, bool) {
	at := slices.IndexFunc(d.snapshot.QOS, func(q QOS) bool { return q.Name == name })
	return at, at >= 0
}

func (d *dialogue) findAssociation(account, user string) (int, bool) {
	at := slices.IndexFunc(d.snapshot.Associations, func(a Association) bool { return a.Account == account && a.User == user })
	return at, at >= 0
}

func (d *dialogue) association(words []string) error {
	d.limited()
	a := Association{Account: words[0], Limits: NoLimits()}
	parent := "root"
	var err error
	for _, word := range words[1:] {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "parent":
			parent = value
		case "account":
			a.Account, a.User, parent = value, words[0], value
		case "used":
			a.Used, err = d.used(value)
		default:
			err = d.setLimit(&a.Limits, name, value)
		}
		if err != nil {
			return err
		}
	}
	if at, known := d.findAssociation(a.Account, a.User); known {
		a.Parent = d.snapshot.Associations[at].Parent
		d.snapshot.Associations[at] = a
		return nil
	}
	var known bool
	if a.Parent, known = d.findAssociation(parent, ""); !known {
		return fmt.Errorf("no account %q", parent)
	}
	d.snapshot.Associations = append(d.snapshot.Associations, a)
	return nil
}

func (d *dialogue) used(value string) (Used, error) {
	if wall, found := strings.CutPrefix(value, "wall="); found {
		return Used{WallMinutes: int64(number(wall, 0))}, nil
	}
	amounts, err := d.amounts(value)
	return Used{TRESMinutes: amounts}, err
}

// amounts reads "cpu=4,mem=8G".
func (d *dialogue) amounts(text string) (Amounts, error) {
	amounts := slices.Repeat(Amounts{NoLimit}, len(d.snapshot.TRES))
	for word := range strings.SplitSeq(text, ",") {
		at := strings.LastIndexByte(word, '=')
		if at < 0 {
			return nil, fmt.Errorf("%q is not TRES=N", word)
		}
		tres, found := slices.BinarySearch(d.snapshot.TRES, word[:at])
		if !found {
			return nil, fmt.Errorf("no TRES %q", word[:at])
		}
		if value := word[at+1:]; strings.HasSuffix(value, "G") {
			amounts[tres] = int64(size(value, 0))
		} else {
			amounts[tres] = int64(number(value, 0))
		}
	}
	return amounts, nil
}

func (d *dialogue) setLimit(l *Limits, name, value string) error {
	if name == "DenyOnLimit" {
		l.DenyOnLimit = true
		return nil
	}
	counts := map[string]*int32{
		"GrpJobs": &l.GroupJobs, "GrpSubmitJobs": &l.GroupSubmit, "MaxJobs": &l.MaxJobs, "MaxJobsPerUser": &l.MaxJobs,
		"MaxSubmitJobs": &l.MaxSubmit, "MaxJobsPerAccount": &l.MaxJobsPerAccount, "MaxSubmitJobsPerAccount": &l.MaxSubmitPerAccount,
	}
	if to := counts[name]; to != nil {
		n, err := strconv.Atoi(value)
		*to = int32(n)
		return err
	}
	if to := map[string]*int64{"GrpWall": &l.GroupWallMinutes, "MaxWall": &l.MaxWallMinutes}[name]; to != nil {
		*to = int64(number(value, 0))
		return nil
	}
	to := map[string]*Amounts{
		"GrpTRES": &l.GroupTRES, "GrpTRESMins": &l.GroupTRESMinutes, "GrpTRESRunMins": &l.GroupTRESRunMinutes,
		"MaxTRESPerJob": &l.MaxTRESPerJob, "MaxTRESPerNode": &l.MaxTRESPerNode,
		"MaxTRESMinsPerJob": &l.MaxTRESMinutesPerJob,
		"MaxTRESPerUser":    &l.MaxTRESPerUser, "MaxTRESPerAccount": &l.MaxTRESPerAccount, "MinTRESPerJob": &l.MinTRESPerJob,
	}[name]
	if to == nil {
		return fmt.Errorf("no limit %q", name)
	}
	var err error
	*to, err = d.amounts(value)
	return err
}

// ended gives back what a running job holds.
func (d *dialogue) ended(words []string) error {
	id := JobID(number(words[0], 0))
	at := slices.IndexFunc(d.snapshot.Running, func(r Running) bool { return r.ID == id })
	if at < 0 {
		return fmt.Errorf("job %d does not run", id)
	}
	for _, alloc := range d.snapshot.Running[at].Placement.Allocs {
		n := &d.snapshot.Nodes[alloc.Node]
		n.FreeCPUs, n.FreeMemory = n.FreeCPUs.Union(alloc.CPUs), n.FreeMemory+alloc.MemoryBytes
		n.Exclusive = n.Exclusive && !d.snapshot.Running[at].Exclusive
		n.Devices = slices.Clone(n.Devices)
		for _, grant := range alloc.Devices {
			n.Devices[grant.Device].FreeShares += grant.Shares
		}
		n.Busy = !n.FreeCPUs.Equal(n.CPUs)
	}
	d.snapshot.Running = slices.Delete(d.snapshot.Running, at, at+1)
	return nil
}

// submit reports whether a job is refused at submission for a limit.
func (d *dialogue) submit(words []string) (string, error) {
	job, shape, err := d.parse(words)
	if err != nil {
		return "", err
	}
	l := NewLimiter(&d.snapshot)
	c := Charge{
		Job: job.ID, Association: job.Association, QOS: job.QOS, Partition: shape.Partitions[0],
		UID: job.UID, TimeLimitS: shape.TimeLimitS, Licenses: job.Licenses,
	}
	ask := l.AskLeast(c, &shape.Request)
	if reached := l.NeverStarts(c, &ask); reached != nil {
		return fmt.Sprintf("refused (%s) %s\n", LimitReason(reached, d.snapshot), LimitSentence(reached, d.snapshot)), nil
	}
	return "accepted\n", nil
}
