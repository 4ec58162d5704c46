package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
)

// accountIndex finds what the records name in a snapshot for the scheduler.
type accountIndex struct {
	tres         map[string]int
	associations map[uint32]int32
	qos          map[string]int32
}

// association is the position of an association by its number; -1 when it is
// missing.
func (x *accountIndex) association(id uint32) int32 {
	if at, found := x.associations[id]; found {
		return at
	}
	return -1
}

func (x *accountIndex) qosNamed(name string) int32 {
	if at, found := x.qos[name]; found {
		return at
	}
	return -1
}

// schedAccounts lists TRES, associations and QOS. models are those of the nodes' devices.
func (v *View) schedAccounts(snapshot *sched.Snapshot, models []string) *accountIndex {
	index := &accountIndex{tres: map[string]int{}, associations: map[uint32]int32{}, qos: map[string]int32{}}
	snapshot.TRES = v.tresNames(models)
	for i, name := range snapshot.TRES {
		index.tres[name] = i
	}
	for qos := range v.AllQOS() {
		index.qos[qos.Name] = int32(len(index.qos))
	}
	for qos := range v.AllQOS() {
		snapshot.QOS = append(snapshot.QOS, index.schedQOS(qos))
	}
	if !v.HasAccounts() {
		return index
	}
	snapshot.Associations = make([]sched.Association, 0, v.associations.Len())
	v.schedTree(snapshot, index, policy.RootAccount, -1)
	return index
}

// schedTree lists an account below the one at parent, its users, and the
// accounts below it.
func (v *View) schedTree(snapshot *sched.Snapshot, index *accountIndex, account string, parent int) {
	for association := range v.AssociationsIn(account) {
		index.associations[association.ID] = int32(len(snapshot.Associations))
		snapshot.Associations = append(snapshot.Associations, sched.Association{
			Parent: parent, Account: association.Account, User: association.User, Partition: association.Partition,
			Shares: association.Shares, ShareParent: association.ShareParent, Priority: association.Priority,
			Limits: index.schedLimits(&association.Limits),
		})
		if association.User == "" {
			parent = len(snapshot.Associations) - 1 // it comes first
		}
	}
	for child := range v.AccountsBelow(account) {
		v.schedTree(snapshot, index, child, parent)
	}
}

func (x *accountIndex) schedQOS(qos *QOS) sched.QOS {
	out := sched.QOS{
		Name: qos.Name, Priority: qos.Priority, Preempt: qos.PreemptMode, GraceTimeS: qos.GraceTimeS,
		PreemptExemptTimeS: -1, UsageFactorPPM: 1_000_000, Limits: x.schedLimits(&qos.Limits),
		OverridesPartition: qos.OverridePartition,
	}
	for _, name := range qos.Preempts {
		out.Preempts = append(out.Preempts, int(x.qos[name]))
	}
	if qos.ExemptTimeS != nil {
		out.PreemptExemptTimeS = int64(*qos.ExemptTimeS)
	}
	if qos.UsageFactorPPM != nil {
		out.UsageFactorPPM = *qos.UsageFactorPPM
	}
	out.Limits.DenyOnLimit = qos.DenyOnLimit
	return out
}

func (x *accountIndex) schedLimits(limits *Limits) sched.Limits {
	return sched.Limits{
		GroupJobs:            jobLimit(limits.GroupJobs),
		GroupSubmit:          jobLimit(limits.GroupSubmit),
		GroupTRES:            x.amounts(limits.GroupTRES),
		GroupTRESMinutes:     x.amounts(limits.GroupTRESMinutes),
		GroupTRESRunMinutes:  x.amounts(limits.GroupTRESRunMinutes),
		GroupWallMinutes:     minuteLimit(limits.GroupWallMinutes),
		MaxJobs:              jobLimit(limits.MaxJobs),
		MaxSubmit:            jobLimit(limits.MaxSubmit),
		MaxTRESPerJob:        x.amounts(limits.MaxTRESPerJob),
		MaxTRESPerNode:       x.amounts(limits.MaxTRESPerNode),
		MaxTRESMinutesPerJob: x.amounts(limits.MaxTRESMinutesPerJob),
		MaxWallMinutes:       minuteLimit(limits.MaxWallMinutes),
		MaxTRESPerUser:       x.amounts(limits.MaxTRESPerUser),
		MaxTRESPerAccount:    x.amounts(limits.MaxTRESPerAccount),
		MaxJobsPerAccount:    jobLimit(limits.MaxJobsPerAccount),
		MaxSubmitPerAccount:  jobLimit(limits.MaxSubmitPerAccount),
		MinTRESPerJob:        x.amounts(limits.MinTRESPerJob),
	}
}

func jobLimit(limit *uint32) int32 {
	if limit == nil {
		return sched.NoLimit
	}
	return int32(min(*limit, 1<<31-1))
}

func minuteLimit(limit *uint32) int64 {
	if limit == nil {
		return sched.NoLimit
	}
	return int64(*limit)
}

// amounts has a number for each TRES, -1 where there is none.
func (x *accountIndex) amounts(list []TRESAmount) sched.Amounts {
	if len(list) == 0 {
		return nil
	}
	out := make(sched.Amounts, len(x.tres))
	for i := range out {
		out[i] = sched.NoLimit
	}
	for _, amount := range list {
		if at, known := x.tres[amount.Name]; known {
			out[at] = int64(amount.Count)
		}
	}
	return out
}

// TRESNames are all kinds of resource, ascending: those that every cluster has,
// the models of its GPUs, its licenses, and those that limits and weights name.
func (t *tables) TRESNames() []string { return t.tresNames(t.gpuModels()) }

// gpuModels are the models of all nodes' devices.
func (t *tables) gpuModels() []string {
	var models []string
	last := "" // most nodes have the model of the one before
	for node := range t.Nodes() {
		if node.Inventory == nil {
			continue
		}
		for i := range node.Inventory.Devices {
			if model := node.Inventory.Devices[i].Model; model != last && model != "" {
				if last = model; !slices.Contains(models, model) {
					models = append(models, model)
				}
			}
		}
	}
	return models
}

func (t *tables) tresNames(models []string) []string {
	seen := map[string]bool{}
	for _, name := range []string{sched.TRESBilling, sched.TRESCPU, sched.TRESGPU, sched.TRESMemory, sched.TRESNode} {
		seen[name] = true
	}
	for _, model := range models {
		seen[sched.TRESGPU+":"+model] = true
	}
	for _, license := range t.policy.Licenses {
		seen[policy.LicensePrefix+license.Name] = true
	}
	t.policy.EachTRES(func(name string) { seen[name] = true })
	t.eachLimitedTRES(func(name string) { seen[name] = true })
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// eachLimitedTRES names the TRES in limits.
func (a *accounting) eachLimitedTRES(use func(string)) {
	each := func(limits *Limits) {
		for kind := LimitKind(1); kind <= lastLimit; kind++ {
			if row := kind.row(); row.amounts != nil {
				for _, amount := range *row.amounts(limits) {
					use(amount.Name)
				}
			}
		}
	}
	for association := range values(a.associations) {
		each(&association.Limits)
	}
	for qos := range a.AllQOS() {
		each(&qos.Limits)
	}
}
