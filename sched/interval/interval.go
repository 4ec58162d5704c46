// Package interval answers how often a job should be saved so that the least time
// is lost: to saving, and to what has to be done again when its node fails.
//
// Contract: arithmetic on durations; the standard library only; the same answer
// for the same numbers. Losses come at random (a Poisson process), which is what
// the formulas assume.
//
// Sources: J. W. Young, "A first order approximation to the optimum checkpoint
// interval", Communications of the ACM 17(9), 1974; J. T. Daly, "A higher order
// estimate of the optimum checkpoint interval for restart dumps", Future
// Generation Computer Systems 22(3), 2006, equation 37.
package interval

import (
	"math"
	"time"
)

// Bounds of the answer: more often is not worth the log's while, and less often
// than once a day loses too much when the measured rate is wrong.
const (
	Least = time.Minute
	Most  = 24 * time.Hour
)

// Best is the time to run between two saves, when each costs the job cost and its
// node is lost every mean on average. Daly's estimate: with x = cost / (2 mean),
//
//	sqrt(2 cost mean) (1 + sqrt(x)/3 + x/9) - cost   if cost < 2 mean
//	mean                                             otherwise
//
// within Least and Most. Young's is its first term.
func Best(cost, mean time.Duration) time.Duration {
	d, m := cost.Seconds(), mean.Seconds()
	if d <= 0 || m <= 0 {
		return Least
	}
	best := m
	if d < 2*m {
		x := d / (2 * m)
		best = math.Sqrt(2*d*m)*(1+math.Sqrt(x)/3+x/9) - d
	}
	best = min(max(best, Least.Seconds()), Most.Seconds())
	return time.Duration(best) * time.Second // whole seconds, the same on any machine
}

// priorMean is how long a node about which nothing is known runs between two
// losses of its jobs: servers with GPUs fail about once a month.
const priorMean = 30 * 24 * time.Hour

// MeanBetween estimates the mean time between losses from how long a node has been
// watched and how often it was lost meanwhile: the mean of a gamma distribution
// that begins as one loss in priorMean. So a node that was never lost is not taken
// for immortal, nor one that was lost on its first day for hopeless.
func MeanBetween(watched time.Duration, losses uint32) time.Duration {
	return (max(watched, 0) + priorMean) / time.Duration(int64(losses)+1)
}
