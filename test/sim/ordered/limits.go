package ordered

import (
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/sched"
)

// rules are the limits of a day. Every job could run alone under each.
type rules struct {
	enforced bool   // on half of the days; licenses always are
	licenses uint32 // of solver
	labGPUs  uint32 // GrpTRES=gres/gpu of each lab
	labJobs  uint32 // GrpJobs
	userCPUs uint32 // MaxTRESPerUser=cpu of the QOS normal
	short    uint32 // MaxJobsPerUser of the QOS short
}

const (
	license = "solver"
	short   = "short"
	urgent  = "urgent" // may preempt the others, where QOS preempt
)

var labs = [...]string{"astro", "bio"}

// labOf is a user's account, which is also the default one.
func labOf(uid uint32) string { return labs[uid%uint32(len(labs))] }

func (w *World) drawRules() rules {
	r := w.rng
	return rules{
		enforced: r.IntN(2) == 0, licenses: uint32(2 + r.IntN(2)), labGPUs: uint32(9 + r.IntN(3)),
		labJobs: uint32(4 + r.IntN(4)), userCPUs: uint32(12 + r.IntN(5)), short: uint32(1 + r.IntN(2)),
	}
}

// drawCharge says what a job counts as.
func (w *World) drawCharge(in *intent) {
	if w.rng.IntN(6) == 0 {
		in.spec.Licenses = license + []string{"", ":2"}[w.rng.IntN(2)]
	}
	switch w.rng.IntN(8) {
	case 0:
		in.spec.Qos = short
	case 1:
		in.spec.Qos = urgent
	}
}

// accounts is the command that makes the labs, their users and the QOS.
func (w *World) accounts() state.ChangeAccounts {
	one := func(kind state.LimitKind, tres string, value uint32) []state.LimitChange {
		return []state.LimitChange{{Limit: kind, TRES: tres, Value: uint64(value)}}
	}
	set := func(names ...string) *state.ListEdit { return &state.ListEdit{Operation: state.SetList, Names: names} }
	changes := []state.AccountChange{
		{Action: state.ModifyRecord, Record: state.QOSRecord, QOS: state.NormalQOS, Limits: one(state.LimitMaxTRESPerUser, sched.TRESCPU, w.rules.userCPUs)},
		{Action: state.AddRecord, Record: state.QOSRecord, QOS: short, Limits: one(state.LimitMaxJobs, "", w.rules.short)},
		{Action: state.AddRecord, Record: state.QOSRecord, QOS: urgent, Preempts: set(state.NormalQOS, short)},
	}
	for _, lab := range labs {
		changes = append(changes, state.AccountChange{
			Action: state.AddRecord, Record: state.AccountRecord, Account: lab, AllowedQOS: set(state.NormalQOS, short, urgent),
			Limits: append(one(state.LimitGroupTRES, sched.TRESGPU, w.rules.labGPUs), one(state.LimitGroupJobs, "", w.rules.labJobs)...),
		})
	}
	for uid := uint32(firstUser); uid < firstUser+userCount; uid++ {
		changes = append(changes, state.AccountChange{
			Action: state.AddRecord, Record: state.AssociationRecord, Account: labOf(uid), User: identity(uid).GetUser(),
		})
	}
	return state.ChangeAccounts{Changes: changes}
}

// checkLimits counts what really runs, whenever something more does.
func (t *truth) checkLimits() {
	licenses, gpus, jobs := uint32(0), map[string]uint32{}, map[string]uint32{}
	cpus, shorts := map[uint32]uint32{}, map[uint32]uint32{}
	for _, allocs := range t.running {
		first := true
		for s := range allocs {
			asked, uid := s.Order.GetSpec(), s.Order.GetOwner().GetUid()
			if first {
				licenses += licensesOf(asked.GetLicenses())
				jobs[asked.GetAccount()]++
				if asked.GetQos() == short {
					shorts[uid]++
				}
				first = false
			}
			gpus[asked.GetAccount()] += uint32(len(s.Share().GetDevices()))
			if asked.GetQos() == state.NormalQOS {
				cpus[uid] += uint32(len(s.Share().GetCpuIds()))
			}
		}
	}
	rules := &t.w.rules
	if licenses > rules.licenses {
		t.w.fail("limit passed: %d of license %s are in use, of %d", licenses, license, rules.licenses)
	}
	if !rules.enforced {
		return
	}
	for _, lab := range labs {
		t.keeps(lab+"'s GrpTRES=gres/gpu", gpus[lab], rules.labGPUs)
		t.keeps(lab+"'s GrpJobs", jobs[lab], rules.labJobs)
	}
	for uid := uint32(firstUser); uid < firstUser+userCount; uid++ {
		t.keeps(identity(uid).GetUser()+"'s MaxTRESPerUser=cpu", cpus[uid], rules.userCPUs)
		t.keeps(identity(uid).GetUser()+"'s MaxJobsPerUser", shorts[uid], rules.short)
	}
}

func (t *truth) keeps(limit string, used, most uint32) {
	if used > most {
		t.w.fail("limit passed: %s is %d, and %d run", limit, most, used)
	}
}

// licensesOf reads back what drawCharge wrote, as the state spells it.
func licensesOf(text string) uint32 {
	switch text {
	case "":
		return 0
	case license, license + ":1":
		return 1
	}
	return 2
}
