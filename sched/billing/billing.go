// Package billing says what a job's resources are billed.
//
// Contract: pure arithmetic on plain values, standard library only. Amounts
// are whole units of each kind of resource (TRES), memory in bytes; weights are
// millionths for one unit, and for memory for one GiB. The answer is in
// millionths, rounded down for each kind, and stops at the highest number in
// place of running over; it is the same on every machine. Time and memory: one
// step for each TRES, and none.
//
// Source: TRESBillingWeights and PriorityFlags=MAX_TRES in slurm.conf(5).
package billing

import (
	"math"
	"math/bits"
)

// Kind says how a TRES is billed.
type Kind uint8

// Kinds of TRES.
const (
	Unbilled Kind = iota // billing itself
	CPU                  // what is billed where there are no weights
	Memory               // bytes, with a weight for each GiB
	OfNode               // any other that nodes have, such as GPUs
	Global               // that belongs to no node: licenses
)

// Scale is the number of millionths in one.
const Scale = 1_000_000

// Weighted is what amounts are billed, in millionths: the sum over all TRES, or
// with maxTRES the highest of those that nodes have and the sum of the others
// (MAX_TRES). The three slices have an entry for each TRES; without weights,
// which are nil, each CPU counts one.
func Weighted(amounts, weights []int64, kinds []Kind, maxTRES bool) int64 {
	nodes, global := int64(0), int64(0)
	for i, kind := range kinds {
		bill := int64(0)
		switch {
		case kind == Unbilled:
		case weights != nil:
			bill = weigh(amounts[i], weights[i], kind)
		case kind == CPU:
			bill = weigh(amounts[i], Scale, kind)
		}
		switch {
		case kind == Global:
			global = Add(global, bill)
		case maxTRES:
			nodes = max(nodes, bill)
		default:
			nodes = Add(nodes, bill)
		}
	}
	return Add(nodes, global)
}

const gib = 1 << 30

// weigh is amount times weight. Neither is negative.
func weigh(amount, weight int64, kind Kind) int64 {
	high, low := bits.Mul64(uint64(max(amount, 0)), uint64(max(weight, 0)))
	if kind == Memory {
		if high >= gib {
			return math.MaxInt64
		}
		low, _ = bits.Div64(high, low, gib)
		high = 0
	}
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}

// Add adds numbers that are not negative, and stops at the highest.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
