package policy

import (
	"cmp"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file converts priority, preemption, licenses and switches to the API's
// messages, and back. An impossible value in a message is kept as something
// that Normalize refuses.

// wrong replaces a word or number of a message that does not exist, until the
// policy is checked.
const wrong = 255

func wordOf(words []string, number uint8) string {
	if int(number) < len(words) {
		return words[number]
	}
	return "?"
}

// numberOf is the number of a word; "" is 0.
func numberOf(words []string, word string) uint8 {
	if word == "" {
		return 0
	}
	if at := slices.Index(words, word); at >= 0 {
		return uint8(at)
	}
	return wrong
}

func (p *Policy) readShares(message *pb.Policy) {
	if m := message.GetPriority(); m != nil {
		p.Priority = Priority{
			WeightAge: m.GetWeightAge(), WeightAssociation: m.GetWeightAssoc(), WeightFairShare: m.GetWeightFairShare(),
			WeightJobSize: m.GetWeightJobSize(), WeightPartition: m.GetWeightPartition(), WeightQOS: m.GetWeightQos(),
			MaxAgeS: m.GetMaxAgeS(), DecayHalfLifeS: m.GetDecayHalfLifeS(),
			FavorSmall: m.GetFavorSmall(), SmallRelativeToTime: m.GetSmallRelativeToTime(), MaxTRES: m.GetMaxTres(),
			UsageReset: ResetPeriodOf(m.GetUsageResetPeriod()),
		}
		for name, weight := range m.GetWeightTres() {
			p.Priority.WeightTRES = append(p.Priority.WeightTRES, TRESWeight{Name: name, Weight: int64(weight)})
		}
		sortWeights(p.Priority.WeightTRES)
	}
	p.Preempt = Preempt{
		Type:        sched.PreemptType(numberOf(preemptTypeWords, message.GetPreempt().GetType())),
		Mode:        PreemptMode(numberOf(preemptModeWords, message.GetPreempt().GetMode())),
		ExemptTimeS: message.GetPreempt().GetExemptTimeS(), GuestExemptTimeS: message.GetPreempt().GetGuestExemptTimeS(),
	}
	p.Scheduler = SchedulerFromMessage(message.GetScheduler())
	for _, license := range message.GetLicenses() {
		p.Licenses = append(p.Licenses, License{Name: license.GetName(), Count: license.GetCount()})
	}
	for _, m := range message.GetSwitches() {
		read := Switch{Name: m.GetName(), Nodes: m.GetNodes()}
		names, err := spec.ParseHostList(m.GetSwitches())
		if err != nil {
			names = []string{m.GetSwitches()} // which no switch is called
		}
		read.Switches = names
		p.Switches = append(p.Switches, read)
	}
	accounting := message.GetAccounting()
	p.Accounting = Accounting{
		EnforceAssociations: accounting.GetEnforceAssociations(), EnforceLimits: accounting.GetEnforceLimits(),
		EnforceQOS: accounting.GetEnforceQos(), Safe: accounting.GetSafe(),
	}
}

func (p *Policy) writeShares(message *pb.Policy) {
	q := &p.Priority
	message.Priority = &pb.PriorityPolicy{
		WeightAge: q.WeightAge, WeightAssoc: q.WeightAssociation, WeightFairShare: q.WeightFairShare,
		WeightJobSize: q.WeightJobSize, WeightPartition: q.WeightPartition, WeightQos: q.WeightQOS,
		MaxAgeS: q.maxAgeS(), DecayHalfLifeS: q.HalfLifeS(),
		FavorSmall: q.FavorSmall, SmallRelativeToTime: q.SmallRelativeToTime, MaxTres: q.MaxTRES,
		UsageResetPeriod: q.UsageReset.String(),
	}
	for _, w := range q.WeightTRES {
		if message.Priority.WeightTres == nil {
			message.Priority.WeightTres = map[string]uint32{}
		}
		message.Priority.WeightTres[w.Name] = uint32(w.Weight)
	}
	message.Preempt = &pb.PreemptPolicy{
		Type: preemptTypeWord(p.Preempt.Type), Mode: preemptModeWord(cmp.Or(p.Preempt.Mode, sched.PreemptOff)), ExemptTimeS: p.Preempt.ExemptTimeS,
		GuestExemptTimeS: p.Preempt.GuestExemptTimeS,
	}
	for _, license := range p.Licenses {
		message.Licenses = append(message.Licenses, &pb.License{Name: license.Name, Count: license.Count})
	}
	for _, s := range p.Switches {
		message.Switches = append(message.Switches, &pb.Switch{Name: s.Name, Nodes: s.Nodes, Switches: spec.FormatHostList(s.Switches)})
	}
	message.Scheduler = p.Scheduler.message()
	message.Accounting = &pb.AccountingPolicy{
		EnforceAssociations: p.Accounting.EnforceAssociations, EnforceLimits: p.Accounting.EnforceLimits,
		EnforceQos: p.Accounting.EnforceQOS, Safe: p.Accounting.Safe,
	}
}
