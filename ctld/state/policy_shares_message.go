package state

import (
	"cmp"
	"math"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file turns what the policy says of who goes first into the API's
// messages, and back. What a message says that cannot be is kept as something
// that NormalizePolicy refuses.

// preemptModeWords and preemptTypeWords are the words of the API and of
// cluster.toml, by number.
var (
	preemptModeWords = []string{"", "off", "cancel", "requeue", "suspend", "checkpoint"}
	preemptTypeWords = []string{"none", "partition", "qos"}
	exclusiveWords   = []string{"", "node", "user"}
)

// preemptModeWord is the word for a mode; "" for none of its own.
func preemptModeWord(mode PreemptMode) string { return wordOf(preemptModeWords, uint8(mode)) }

func preemptTypeWord(kind sched.PreemptType) string { return wordOf(preemptTypeWords, uint8(kind)) }

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
		p.Priority = PriorityPolicy{
			WeightAge: m.GetWeightAge(), WeightAssociation: m.GetWeightAssoc(), WeightFairShare: m.GetWeightFairShare(),
			WeightJobSize: m.GetWeightJobSize(), WeightPartition: m.GetWeightPartition(), WeightQOS: m.GetWeightQos(),
			MaxAgeS: m.GetMaxAgeS(), DecayHalfLifeS: m.GetDecayHalfLifeS(),
			FavorSmall: m.GetFavorSmall(), SmallRelativeToTime: m.GetSmallRelativeToTime(), MaxTRES: m.GetMaxTres(),
			UsageReset: resetPeriod(m.GetUsageResetPeriod()),
		}
		for name, weight := range m.GetWeightTres() {
			p.Priority.WeightTRES = append(p.Priority.WeightTRES, TRESWeight{Name: name, Weight: int64(weight)})
		}
		sortWeights(p.Priority.WeightTRES)
	}
	p.Preempt = PreemptPolicy{
		Type:        sched.PreemptType(numberOf(preemptTypeWords, message.GetPreempt().GetType())),
		Mode:        PreemptMode(numberOf(preemptModeWords, message.GetPreempt().GetMode())),
		ExemptTimeS: message.GetPreempt().GetExemptTimeS(),
	}
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
	p.Accounting = AccountingPolicy{
		EnforceAssociations: accounting.GetEnforceAssociations(), EnforceLimits: accounting.GetEnforceLimits(),
		EnforceQOS: accounting.GetEnforceQos(), Safe: accounting.GetSafe(),
	}
}

func (p *Policy) writeShares(message *pb.Policy) {
	q := &p.Priority
	message.Priority = &pb.PriorityPolicy{
		WeightAge: q.WeightAge, WeightAssoc: q.WeightAssociation, WeightFairShare: q.WeightFairShare,
		WeightJobSize: q.WeightJobSize, WeightPartition: q.WeightPartition, WeightQos: q.WeightQOS,
		MaxAgeS: q.maxAgeS(), DecayHalfLifeS: q.halfLifeS(),
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
	}
	for _, license := range p.Licenses {
		message.Licenses = append(message.Licenses, &pb.License{Name: license.Name, Count: license.Count})
	}
	for _, s := range p.Switches {
		message.Switches = append(message.Switches, &pb.Switch{Name: s.Name, Nodes: s.Nodes, Switches: spec.FormatHostList(s.Switches)})
	}
	message.Accounting = &pb.AccountingPolicy{
		EnforceAssociations: p.Accounting.EnforceAssociations, EnforceLimits: p.Accounting.EnforceLimits,
		EnforceQos: p.Accounting.EnforceQOS, Safe: p.Accounting.Safe,
	}
}

// maxAgeS and halfLifeS are what is in force.
func (p *PriorityPolicy) maxAgeS() uint32   { return cmp.Or(p.MaxAgeS, DefaultMaxAgeS) }
func (p *PriorityPolicy) halfLifeS() uint32 { return cmp.Or(p.DecayHalfLifeS, DefaultDecayHalfLifeS) }

func (p *Partition) readShares(message *pb.Partition) {
	p.PriorityJobFactor = message.GetPriorityJobFactor()
	p.QOS, p.AllowAccounts, p.AllowQOS = message.GetQos(), message.GetAllowAccounts(), message.GetAllowQos()
	p.PreemptMode = PreemptMode(numberOf(preemptModeWords, message.GetPreemptMode()))
	p.GraceTimeS = message.GetGraceTimeS()
	p.Exclusive = ExclusiveKind(numberOf(exclusiveWords, message.GetExclusive()))
	for name, weight := range message.GetTresBillingWeights() {
		p.BillingWeights = append(p.BillingWeights, TRESWeight{Name: name, Weight: millionths(weight)})
	}
	sortWeights(p.BillingWeights)
}

// sortWeights undoes the order of a map.
func sortWeights(weights []TRESWeight) {
	slices.SortFunc(weights, func(a, b TRESWeight) int { return cmp.Compare(a.Name, b.Name) })
}

// millionths is a weight as it is kept; -1 for one that is no weight, or that
// would be lost in the rounding.
func millionths(weight float64) int64 {
	if !(weight >= 0 && weight <= 2*MaxBillingWeight) { // not a number, too
		return -1
	}
	kept := int64(math.Round(weight * weightUnit))
	if kept == 0 && weight > 0 {
		return -1
	}
	return kept
}

func (p *Partition) writeShares(message *pb.Partition) {
	message.PriorityJobFactor = p.jobFactor()
	message.Qos, message.AllowAccounts, message.AllowQos = p.QOS, p.AllowAccounts, p.AllowQOS
	message.PreemptMode = preemptModeWord(p.PreemptMode)
	message.GraceTimeS = p.GraceTimeS
	message.Exclusive = wordOf(exclusiveWords, uint8(p.Exclusive))
	message.TresBillingWeights = p.billingWeights()
}

func (p *Partition) jobFactor() uint32 { return cmp.Or(p.PriorityJobFactor, 1) }

// billingWeights are the weights by name, as the API has them.
func (p *Partition) billingWeights() map[string]float64 {
	if len(p.BillingWeights) == 0 {
		return nil
	}
	weights := make(map[string]float64, len(p.BillingWeights))
	for _, w := range p.BillingWeights {
		weights[w.Name] = float64(w.Weight) / weightUnit
	}
	return weights
}

// words are those of accounting.enforce.
func (a AccountingPolicy) words() string {
	var words []string
	for _, word := range []struct {
		is   bool
		word string
	}{{a.EnforceAssociations, "associations"}, {a.EnforceLimits, "limits"}, {a.EnforceQOS, "qos"}, {a.Safe, "safe"}} {
		if word.is {
			words = append(words, word.word)
		}
	}
	return strings.Join(words, ",")
}
