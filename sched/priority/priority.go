// Package priority is the arithmetic of Slurm's multifactor priority
// (priority_multifactor.html): each factor, its weight, and their sum.
//
// Contract: numbers in, numbers out. A factor is a fraction of whole numbers
// from 0 to 1, a weighted one is kept to 2^-24, and so every machine has the
// same priorities; no factor is lost because floats of 64 bits ran out of
// digits. Cost: a division of 128 bits for each factor.
//
// Where that page and the program differ the page is followed: a job that asks
// for all nodes has the size factor 1, and with FavorSmall one that asks for a
// single node has it.
//
// It imports the standard library only.
package priority

import (
	"math"
	"math/bits"
)

// Fraction is a factor, Part of Whole: 1 if Part is Whole or more, 0 if Whole
// is 0.
type Fraction struct{ Part, Whole uint64 }

// Weighted is a factor times its weight, in units of 2^-24.
type Weighted int64

// places are the binary places of a Weighted, and one is 1.
const (
	places = 24
	one    = 1 << places
)

// Times is the factor times a weight.
func (f Fraction) Times(weight uint32) Weighted {
	if f.Whole == 0 || f.Part == 0 || weight == 0 {
		return 0
	}
	if f.Part >= f.Whole {
		return Weighted(weight) << places
	}
	high, low := bits.Mul64(f.Part, uint64(weight))
	high, low = high<<places|low>>(64-places), low<<places
	low, carry := bits.Add64(low, f.Whole/2, 0) // to the nearest
	quotient, _ := bits.Div64(high+carry, low, f.Whole)
	return Weighted(quotient)
}

// Float is the factor as a number, for showing it.
func (f Fraction) Float() float64 {
	if f.Whole == 0 {
		return 0
	}
	return min(float64(f.Part)/float64(f.Whole), 1)
}

// Round is the weighted factor to the nearest whole number.
func (w Weighted) Round() uint64 { return (uint64(max(w, 0)) + one/2) >> places }

// Float is the weighted factor as a number, for showing it.
func (w Weighted) Float() float64 { return float64(w) / one }

// Plus adds weighted factors, up to a sum that is above every priority.
func (w Weighted) Plus(other Weighted) Weighted { return min(w, 1<<61) + min(other, 1<<61) }

// rounding is more than what rounding can take from the sum of all factors:
// what should be whole is not cut to the number below.
const rounding = 1 << 8

// Sum is the priority: the weighted factors, plus the site factor, less the
// nice value, cut to a whole number. It is at least 1, because 0 is for jobs
// that are held, and at most 2^32 - 1.
func Sum(factors Weighted, site, nice int32) uint32 {
	whole := (int64(factors)+rounding)>>places + int64(site) - int64(nice)
	return uint32(min(max(whole, 1), math.MaxUint32))
}

// Age is the age factor: how long the job has waited eligible, of what counts
// most (PriorityMaxAge).
func Age(waitedMS int64, maxAgeS uint32) Fraction {
	return Fraction{uint64(max(waitedMS, 0)), uint64(maxAgeS) * 1000}
}

// Normalized is the factor of an association, a partition or a QOS: its number,
// of the highest that any of them has.
func Normalized(number, highest uint32) Fraction {
	return Fraction{uint64(number), uint64(highest)}
}

// Rank is the fair-share factor of Fair Tree: a user's rank, of the number of
// users.
func Rank(rank, users uint32) Fraction { return Fraction{uint64(rank), uint64(users)} }

// Requested is the factor of a TRES: what the job asks for, of what the
// partition has, or the cluster for what no partition has (licenses).
func Requested(amount, total int64) Fraction {
	return Fraction{uint64(max(amount, 0)), uint64(max(total, 0))}
}

// Size is what the job size factor looks at.
type Size struct {
	Nodes, CPUs               uint64 // that the job asks for
	ClusterNodes, ClusterCPUs uint64
	TimeLimitMinutes          uint64
}

// Large is the job size factor that favors large jobs: the nodes it asks for of
// all there are, or the CPUs if that is more.
func (s Size) Large() Fraction {
	nodes, cpus := Fraction{s.Nodes, s.ClusterNodes}, Fraction{s.CPUs, s.ClusterCPUs}
	if nodes.Whole == 0 || cpus.Whole != 0 && less(nodes, cpus) {
		return cpus
	}
	return nodes
}

// Small is the one that favors small jobs: 1 for a single node, 0 for all.
func (s Size) Small() Fraction {
	if s.ClusterNodes <= 1 || s.Nodes <= 1 {
		return Fraction{1, 1}
	}
	return Fraction{s.ClusterNodes - min(s.Nodes, s.ClusterNodes), s.ClusterNodes - 1}
}

// RelativeToTime is the one of SMALL_RELATIVE_TO_TIME: the job's CPUs, over its
// time limit in minutes, over the CPUs of the cluster. A job that asks for few
// CPUs on many nodes has its share of the cluster's CPUs.
func (s Size) RelativeToTime() Fraction {
	if s.ClusterCPUs == 0 {
		return Fraction{}
	}
	cpus := s.CPUs
	if s.ClusterNodes > 0 {
		high, low := bits.Mul64(min(s.Nodes, s.ClusterNodes), s.ClusterCPUs)
		share, _ := bits.Div64(high, low, s.ClusterNodes)
		cpus = max(cpus, share)
	}
	high, whole := bits.Mul64(s.ClusterCPUs, max(s.TimeLimitMinutes, 1))
	if high != 0 {
		return Fraction{0, 1}
	}
	return Fraction{cpus, whole}
}

// less compares fractions whose wholes are not 0.
func less(a, b Fraction) bool {
	highA, lowA := bits.Mul64(a.Part, b.Whole)
	highB, lowB := bits.Mul64(b.Part, a.Whole)
	return highA < highB || highA == highB && lowA < lowB
}
