package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// LicensePrefix begins the name of a license's TRES.
const LicensePrefix = "license/"

// Priority has the weights of the multifactor priority (slurm.conf(5)).
// Zero is the default everywhere.
type Priority struct {
	WeightAge           uint32       `cbor:"1,keyasint,omitempty"`
	WeightAssociation   uint32       `cbor:"2,keyasint,omitempty"`
	WeightFairShare     uint32       `cbor:"3,keyasint,omitempty"`
	WeightJobSize       uint32       `cbor:"4,keyasint,omitempty"`
	WeightPartition     uint32       `cbor:"5,keyasint,omitempty"`
	WeightQOS           uint32       `cbor:"6,keyasint,omitempty"`
	WeightTRES          []TRESWeight `cbor:"7,keyasint,omitempty"` // ascending by name
	MaxAgeS             uint32       `cbor:"8,keyasint,omitempty"` // 0 = DefaultMaxAgeS
	DecayHalfLifeS      uint32       `cbor:"9,keyasint,omitempty"` // 0 = DefaultDecayHalfLifeS; sched.Unlimited = no decay
	FavorSmall          bool         `cbor:"10,keyasint,omitempty"`
	SmallRelativeToTime bool         `cbor:"11,keyasint,omitempty"`
	MaxTRES             bool         `cbor:"12,keyasint,omitempty"` // bill the most expensive TRES of a node, not their sum
	UsageReset          ResetPeriod  `cbor:"13,keyasint,omitempty"`
}

// Defaults, as in slurm.conf(5).
const (
	DefaultMaxAgeS        = 7 * 24 * 3600
	DefaultDecayHalfLifeS = 7 * 24 * 3600
)

// TRESWeight is the weight of one unit of a TRES, in millionths for billing
// and whole for priorities. The unit of mem is a GiB.
type TRESWeight struct {
	Name   string `cbor:"1,keyasint"`
	Weight int64  `cbor:"2,keyasint"`
}

// maxAgeS and HalfLifeS are what is in force.
func (p *Priority) maxAgeS() uint32 { return cmp.Or(p.MaxAgeS, DefaultMaxAgeS) }

// HalfLifeS is in how long usage counts half.
func (p *Priority) HalfLifeS() uint32 { return cmp.Or(p.DecayHalfLifeS, DefaultDecayHalfLifeS) }

// sortWeights gives weights from a map a fixed order.
func sortWeights(weights []TRESWeight) {
	slices.SortFunc(weights, func(a, b TRESWeight) int { return cmp.Compare(a.Name, b.Name) })
}

// millionths is a weight as it is kept; -1 for an invalid weight, or one that
// rounding would lose.
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

// MaxBillingWeight is the highest weight of a unit of a TRES: with it years of
// the largest cluster's usage still fit.
const MaxBillingWeight = 1_000_000

// MaxPriorityJobFactor is Slurm's.
const MaxPriorityJobFactor = 65_533

// weightUnit is one, in a partition's billing weights.
const weightUnit = 1_000_000

// weights is the sum of all weights: the highest priority without site factor
// and nice value.
func (p *Priority) weights() uint64 {
	sum := uint64(0)
	for _, weight := range []uint32{p.WeightAge, p.WeightAssociation, p.WeightFairShare, p.WeightJobSize, p.WeightPartition, p.WeightQOS} {
		sum += uint64(weight)
	}
	for _, tres := range p.WeightTRES {
		sum += uint64(max(tres.Weight, 0))
	}
	return sum
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
			return nil, fmt.Errorf("write %q as %q", bounds.Clip(w.Name, bounds.MaxNameBytes), name)
		case name == sched.TRESBilling:
			return nil, fmt.Errorf("billing has no weight: it is what the weights of the others make")
		case i > 0 && weights[i-1].Name == name:
			return nil, fmt.Errorf("%s has two weights: leave one", name)
		case w.Weight < 0:
			return nil, fmt.Errorf("the weight of %s is no number from 0 to %d", name, MaxBillingWeight)
		}
		if license, is := strings.CutPrefix(name, LicensePrefix); is && !p.hasLicense(license) {
			return nil, fmt.Errorf("there is no license %s: add it as [[license]], or leave out its weight", license)
		}
	}
	return weights, nil
}

func (p *Priority) settings() []setting {
	return []setting{
		{"weight_age", fmt.Sprint(p.WeightAge)},
		{"weight_assoc", fmt.Sprint(p.WeightAssociation)},
		{"weight_fair_share", fmt.Sprint(p.WeightFairShare)},
		{"weight_job_size", fmt.Sprint(p.WeightJobSize)},
		{"weight_partition", fmt.Sprint(p.WeightPartition)},
		{"weight_qos", fmt.Sprint(p.WeightQOS)},
		{"max_age", spec.FormatTime(p.maxAgeS())},
		{"decay_half_life", spec.FormatTime(p.HalfLifeS())},
		{"usage_reset_period", p.UsageReset.String()},
		{"favor_small", fmt.Sprint(p.FavorSmall)},
		{"small_relative_to_time", fmt.Sprint(p.SmallRelativeToTime)},
		{"max_tres", fmt.Sprint(p.MaxTRES)},
	}
}

// EachTRES names the TRES in the policy's weights.
func (p *Policy) EachTRES(use func(string)) {
	for _, weight := range p.Priority.WeightTRES {
		use(weight.Name)
	}
	for i := range p.Partitions {
		for _, weight := range p.Partitions[i].BillingWeights {
			use(weight.Name)
		}
	}
}
