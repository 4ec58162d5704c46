// Package interval computes how often a job should be saved so that the least
// time is lost: to saving, and to work that must be repeated when its node
// fails.
//
// Contract: arithmetic on seconds, without a clock; the standard library only; the
// same answer for the same numbers. Losses come at random (a Poisson process), which is what
// the formulas assume.
//
// Sources: J. W. Young, "A first order approximation to the optimum checkpoint
// interval", Communications of the ACM 17(9), 1974; J. T. Daly, "A higher order
// estimate of the optimum checkpoint interval for restart dumps", Future
// Generation Computer Systems 22(3), 2006, equation 37.
package interval

import "math"

// Bounds of the answer, in seconds: shorter intervals would fill the log, and
// longer ones than a day lose too much when the measured rate is wrong.
const (
	Least = 60.0
	Most  = 24 * 3600.0
)

// Best is how many seconds to run between two saves, when each costs the job cost
// seconds and its node is lost every mean seconds on average. Daly's estimate: with
// x = cost / (2 mean),
//
//	sqrt(2 cost mean) (1 + sqrt(x)/3 + x/9) - cost   if cost < 2 mean
//	mean                                             otherwise
//
// within Least and Most, in whole seconds. Young's is its first term.
func Best(cost, mean float64) uint32 {
	if !(cost > 0 && mean > 0) {
		return uint32(Least)
	}
	best := mean
	if cost < 2*mean {
		x := cost / (2 * mean)
		best = math.Sqrt(2*cost*mean)*(1+math.Sqrt(x)/3+x/9) - cost
	}
	return uint32(min(max(best, Least), Most))
}

// priorMean is how many seconds a node about which nothing is known runs between
// two losses of its jobs: servers with GPUs fail about once a month.
const priorMean = 30 * 24 * 3600.0

// MeanBetween estimates the seconds between losses from how long a node has been
// watched and how often it was lost meanwhile: the mean of a gamma distribution
// that begins as one loss in priorMean. So a node that was never lost is not taken
// for immortal, nor one that was lost on its first day for hopeless.
func MeanBetween(watched float64, losses uint32) float64 {
	return (max(watched, 0) + priorMean) / (float64(losses) + 1)
}
