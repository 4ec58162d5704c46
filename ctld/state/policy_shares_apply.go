package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// MaxBillingWeight is the highest weight of a unit of a TRES: with it the
// largest cluster's usage of years still fits.
const MaxBillingWeight = 1_000_000

// MaxPriorityJobFactor is Slurm's.
const MaxPriorityJobFactor = 65_533

// weightUnit is one, in a partition's billing weights.
const weightUnit = 1_000_000

// wrong stands for a word or number of a message that there is none of, until
// the policy is checked.
const wrong = 255

// suspends says whether some jobs are suspended to make room.
func (p *Policy) suspends() bool {
	return p.Preempt.Mode == sched.PreemptSuspend || slices.ContainsFunc(p.Partitions, func(q Partition) bool { return q.PreemptMode == sched.PreemptSuspend })
}

// textSuspendsLater is for a cluster with older controllers, which refuse it too.
const textSuspendsLater = "preemption by suspend needs newer controllers: upgrade all of them first"

// hasShares says whether anything in the policy came with LevelShares.
func (p *Policy) hasShares() bool {
	for i := range p.Partitions {
		q := &p.Partitions[i]
		if q.PriorityJobFactor > 1 || len(q.BillingWeights) > 0 || q.QOS != "" || q.PreemptMode != 0 || q.GraceTimeS != 0 ||
			len(q.AllowAccounts) > 0 || len(q.AllowQOS) > 0 || q.Exclusive != Shared {
			return true
		}
	}
	return !p.Priority.isZero() || p.Preempt != (PreemptPolicy{}) || len(p.Licenses) > 0 || len(p.Switches) > 0 ||
		p.Accounting != (AccountingPolicy{}) || len(p.RequeueExit)+len(p.RequeueExitHold) > 0
}

func (p *PriorityPolicy) isZero() bool {
	return p.weights() == 0 && p.MaxAgeS == 0 && p.DecayHalfLifeS == 0 && !p.FavorSmall && !p.SmallRelativeToTime && !p.MaxTRES && p.UsageReset == ResetNever
}

// weights is the sum of all weights: the highest priority without site factor
// and nice value.
func (p *PriorityPolicy) weights() uint64 {
	sum := uint64(0)
	for _, weight := range []uint32{p.WeightAge, p.WeightAssociation, p.WeightFairShare, p.WeightJobSize, p.WeightPartition, p.WeightQOS} {
		sum += uint64(weight)
	}
	for _, tres := range p.WeightTRES {
		sum += uint64(max(tres.Weight, 0))
	}
	return sum
}

// normalizeShares checks what the policy says of who goes first, and makes it
// comparable. The rest is normalised already.
func (p *Policy) normalizeShares() error {
	if err := p.normalizeLicenses(); err != nil {
		return err
	}
	if err := p.normalizePriority(); err != nil {
		return err
	}
	if err := p.Preempt.normalize(); err != nil {
		return err
	}
	p.Accounting.normalize()
	for i := range p.Partitions {
		if err := p.normalizePartitionShares(&p.Partitions[i]); err != nil {
			return fmt.Errorf("partition %s: %w", p.Partitions[i].Name, err)
		}
	}
	return p.normalizeSwitches()
}

func (p *Policy) normalizeLicenses() error {
	if len(p.Licenses) > MaxLicenses {
		return fmt.Errorf("%d licenses are too many: at most %d", len(p.Licenses), MaxLicenses)
	}
	p.Licenses = slices.Clone(p.Licenses)
	slices.SortFunc(p.Licenses, func(a, b License) int { return cmp.Compare(a.Name, b.Name) })
	for i, license := range p.Licenses {
		switch {
		case !validName(license.Name):
			return fmt.Errorf("license name %q: use letters, digits and -_. only", clip(license.Name, MaxNameBytes))
		case i > 0 && p.Licenses[i-1].Name == license.Name:
			return fmt.Errorf("license %s is there twice: leave one, with the sum of both", license.Name)
		case license.Count > math.MaxInt32:
			return fmt.Errorf("license %s: count %d is too high: at most %d", license.Name, license.Count, math.MaxInt32)
		}
	}
	return nil
}

func (p *Policy) normalizePriority() error {
	q := &p.Priority
	var err error
	if q.WeightTRES, err = p.normalizeWeights(q.WeightTRES); err != nil {
		return fmt.Errorf("priority.weight_tres: %w", err)
	}
	q.WeightTRES = slices.DeleteFunc(q.WeightTRES, func(w TRESWeight) bool { return w.Weight == 0 })
	if sum := q.weights(); sum > math.MaxUint32 {
		return fmt.Errorf("the weights of [priority] add up to %d, but the highest priority there is is %d, and jobs above it could not be told apart: divide all weights by %d or more",
			sum, uint32(math.MaxUint32), sum/math.MaxUint32+1)
	}
	if q.MaxAgeS == DefaultMaxAgeS {
		q.MaxAgeS = 0
	}
	if q.DecayHalfLifeS == DefaultDecayHalfLifeS {
		q.DecayHalfLifeS = 0
	}
	if q.DecayHalfLifeS != 0 && q.DecayHalfLifeS < 60 {
		return fmt.Errorf("priority.decay_half_life %d s: nothing would be remembered of what was used: use at least 60 seconds, days as a rule, or \"UNLIMITED\"", q.DecayHalfLifeS)
	}
	return q.UsageReset.check()
}

// normalizeWeights sorts weights by name.
func (p *Policy) normalizeWeights(weights []TRESWeight) ([]TRESWeight, error) {
	weights = slices.Clone(weights)
	slices.SortFunc(weights, func(a, b TRESWeight) int { return cmp.Compare(a.Name, b.Name) })
	for i, w := range weights {
		name, err := spec.TRESName(w.Name)
		if err != nil {
			return nil, err
		}
		switch {
		case name != w.Name:
			return nil, fmt.Errorf("write %q as %q", clip(w.Name, MaxNameBytes), name)
		case name == sched.TRESBilling:
			return nil, fmt.Errorf("billing has no weight: it is what the weights of the others make")
		case i > 0 && weights[i-1].Name == name:
			return nil, fmt.Errorf("%s has two weights: leave one", name)
		case w.Weight < 0:
			return nil, fmt.Errorf("the weight of %s is no number from 0 to %d", name, MaxBillingWeight)
		}
		if license, is := strings.CutPrefix(name, licensePrefix); is && !p.hasLicense(license) {
			return nil, fmt.Errorf("there is no license %s: add it as [[license]], or leave out its weight", license)
		}
	}
	return weights, nil
}

func (p *Policy) hasLicense(name string) bool {
	_, found := slices.BinarySearchFunc(p.Licenses, name, func(l License, name string) int { return cmp.Compare(l.Name, name) })
	return found
}

func (p *PreemptPolicy) normalize() error {
	if p.Mode == sched.PreemptOff {
		p.Mode = sched.PreemptUnset // of the cluster they are the same
	}
	if err := checkPreemptMode(p.Mode); err != nil {
		return fmt.Errorf("preempt.mode: %w", err)
	}
	switch {
	case p.Type > sched.PreemptByQOS:
		return fmt.Errorf("preempt.type: use none, partition or qos")
	case p.Type != sched.PreemptNone && p.Mode == sched.PreemptUnset:
		return fmt.Errorf("preempt.type = %q needs a preempt.mode other than off, such as \"requeue\"; or set the type to \"none\"", preemptTypeWord(p.Type))
	case p.Type == sched.PreemptNone && p.Mode != sched.PreemptUnset:
		return fmt.Errorf("preempt.mode = %q needs a preempt.type: \"qos\" or \"partition\"; or set the mode to \"off\"", preemptModeWord(p.Mode))
	}
	return nil
}

// normalize: what is enforced brings what it needs (slurm.conf(5)).
func (a *AccountingPolicy) normalize() {
	a.EnforceLimits = a.EnforceLimits || a.Safe
	a.EnforceAssociations = a.EnforceAssociations || a.EnforceLimits || a.EnforceQOS
}

func (p *Policy) normalizePartitionShares(q *Partition) error {
	if q.PriorityJobFactor == 1 {
		q.PriorityJobFactor = 0
	}
	var err error
	if q.BillingWeights, err = p.normalizeWeights(q.BillingWeights); err != nil {
		return fmt.Errorf("tres_billing_weights: %w", err)
	}
	for _, w := range q.BillingWeights {
		if w.Weight > MaxBillingWeight*weightUnit {
			return fmt.Errorf("tres_billing_weights: the weight of %s is above %d: divide all of them", w.Name, MaxBillingWeight)
		}
	}
	q.AllowAccounts, q.AllowQOS, q.QOS = sortedNames(q.AllowAccounts), sortedNames(q.AllowQOS), strings.ToLower(q.QOS)
	switch {
	case q.PriorityJobFactor > MaxPriorityJobFactor:
		return fmt.Errorf("priority_job_factor %d is too high: at most %d", q.PriorityJobFactor, MaxPriorityJobFactor)
	case checkPreemptMode(q.PreemptMode) != nil:
		return fmt.Errorf("preempt_mode: %w", checkPreemptMode(q.PreemptMode))
	case q.Exclusive > ExclusiveUser:
		return fmt.Errorf("exclusive: use node or user, or leave it out for nodes that jobs share")
	case len(q.AllowAccounts)+len(q.AllowQOS) > MaxListEntries:
		return fmt.Errorf("%d allowed accounts and QOS are too many: at most %d", len(q.AllowAccounts)+len(q.AllowQOS), MaxListEntries)
	}
	for _, name := range slices.Concat([]string{cmp.Or(q.QOS, "none")}, q.AllowAccounts, q.AllowQOS) {
		if !validName(name) {
			return fmt.Errorf("account or QOS name %q: use letters, digits and -_. only", clip(name, MaxNameBytes))
		}
	}
	return nil
}

// sortedNames are those of accounts or QOS, which are in small letters.
func sortedNames(names []string) []string {
	names = slices.Clone(names)
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
