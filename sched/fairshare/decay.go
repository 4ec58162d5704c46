package fairshare

import (
	"math"
	"math/bits"
)

// NoDecay is the half-life of usage that is never forgotten, in seconds; 0 is
// too.
const NoDecay uint32 = math.MaxUint32

// roots are 2^(-1/2^k) for k = 1, 2, …, in units of 2^-64.
var roots = [60]uint64{
	0xb504f333f9de6484, 0xd744fccad69d6af4, 0xeac0c6e7dd24392f, 0xf5257d152486cc2c,
	0xfa83b2db722a033a, 0xfd3e0c0cf486c175, 0xfe9e115c7b8f884c, 0xff4ecb59511ec8a5,
	0xffa756521c8daed2, 0xffd3a751c0f7e10c, 0xffe9d2b2f7db2756, 0xfff4e91bff1b8c3e,
	0xfffa747ea0040664, 0xfffd3a3b7814eb54, 0xfffe9d1cc60ddab1, 0xffff4e8e25879bfa,
	0xffffa7470363f451, 0xffffd3a37dda0313, 0xffffe9d1bdf703af, 0xfffff4e8debe025e,
	0xfffffa746f4fa150, 0xfffffd3a37a3f8b0, 0xfffffe9d1bd1065a, 0xffffff4e8de845ae,
	0xffffffa746f41377, 0xffffffd3a37a05e4, 0xffffffe9d1bd01fc, 0xfffffff4e8de80c0,
	0xfffffffa746f4051, 0xfffffffd3a37a025, 0xfffffffe9d1bd011, 0xffffffff4e8de808,
	0xffffffffa746f404, 0xffffffffd3a37a02, 0xffffffffe9d1bd01, 0xfffffffff4e8de81,
	0xfffffffffa746f40, 0xfffffffffd3a37a0, 0xfffffffffe9d1bd0, 0xffffffffff4e8de8,
	0xffffffffffa746f4, 0xffffffffffd3a37a, 0xffffffffffe9d1bd, 0xfffffffffff4e8df,
	0xfffffffffffa746f, 0xfffffffffffd3a38, 0xfffffffffffe9d1c, 0xffffffffffff4e8e,
	0xffffffffffffa747, 0xffffffffffffd3a3, 0xffffffffffffe9d2, 0xfffffffffffff4e9,
	0xfffffffffffffa74, 0xfffffffffffffd3a, 0xfffffffffffffe9d, 0xffffffffffffff4f,
	0xffffffffffffffa7, 0xffffffffffffffd4, 0xffffffffffffffea, 0xfffffffffffffff5,
}

// inverseLog is 1/ln 2 in units of 2^-62.
const inverseLog = 0x5c551d94ae0bf85d

// Decay is what is left of usage after some time: half of it after one
// half-life, rounded down. Time that runs backwards changes nothing.
func Decay(usage, elapsedMS int64, halfLifeS uint32) int64 {
	if usage <= 0 || elapsedMS <= 0 || halfLifeS == 0 || halfLifeS == NoDecay {
		return max(usage, 0)
	}
	left, halvings := remaining(uint64(elapsedMS), uint64(halfLifeS)*1000)
	if halvings >= 64 {
		return 0
	}
	kept := uint64(usage)
	if left != 0 {
		kept, _ = bits.Mul64(kept, left)
	}
	return int64(kept >> halvings)
}

// remaining is 2^(-elapsed/halfLife) as left·2^-64 halved so many times; a left
// of 0 means 1.
func remaining(elapsed, halfLife uint64) (left, halvings uint64) {
	halvings, rest := elapsed/halfLife, elapsed%halfLife
	// The rest as a binary fraction of a half-life: each of its bits has a
	// factor of its own.
	high, low := rest>>(64-len(roots)), rest<<len(roots)
	fraction, _ := bits.Div64(high, low, halfLife)
	for k, root := range roots {
		if fraction>>(len(roots)-1-k)&1 == 0 {
			continue
		}
		if left == 0 {
			left = root
		} else {
			left, _ = bits.Mul64(left, root)
		}
	}
	return left, halvings
}

// Held is how many microseconds count of a time that has just passed, when what
// was used in it has been decaying since: at most all of them, and never more
// than 1.44 half-lives. So what was used at a steady rate is the rate times
// Held, at the end of that time.
func Held(elapsedMS int64, halfLifeS uint32) int64 {
	if elapsedMS <= 0 {
		return 0
	}
	elapsedMS = min(elapsedMS, math.MaxInt64/1000)
	if halfLifeS == 0 || halfLifeS == NoDecay {
		return elapsedMS * 1000
	}
	left, halvings := remaining(uint64(elapsedMS), uint64(halfLifeS)*1000)
	switch {
	case halvings >= 64:
		left = 0
	case left == 0: // whole half-lives, at least one
		left = 1 << (64 - halvings)
	default:
		left >>= halvings
	}
	lost := uint64(math.MaxUint64)
	if left != 0 {
		lost = -left
	}
	count, _ := bits.Mul64(lost, uint64(halfLifeS)*1_000_000)
	high, low := bits.Mul64(count, inverseLog)
	return min(int64(high<<2|low>>62), elapsedMS*1000)
}

// Used is what a run has used between two times in Unix milliseconds, decayed
// to the second, in units of 2^-10 billing-seconds. billing is what it is
// billed a second, in millionths. It is at most MaxUsage.
func Used(billing, fromMS, toMS int64, halfLifeS uint32) int64 {
	if billing <= 0 || toMS <= fromMS {
		return 0
	}
	elapsed := toMS - fromMS
	if elapsed < 0 { // the times are absurdly far apart
		elapsed = math.MaxInt64
	}
	// millionths · microseconds are 10^-12 billing-seconds.
	high, low := bits.Mul64(uint64(billing), uint64(Held(elapsed, halfLifeS)))
	if high >= 1<<29 { // more than MaxUsage
		return MaxUsage
	}
	quotient, _ := bits.Div64(high<<unitBits|low>>(64-unitBits), low<<unitBits, 1_000_000_000_000)
	return int64(min(quotient, MaxUsage))
}

// unitBits are the binary places of usage.
const unitBits = 10

// MaxUsage is where usage stops to grow, so that sums of two do not overflow:
// 4·10^15 billing-seconds.
const MaxUsage = 1 << 62

// Seconds is usage in billing-seconds, for showing it.
func Seconds(usage int64) float64 { return float64(usage) / (1 << unitBits) }

// Add adds usage to usage.
func Add(a, b int64) int64 {
	return min(min(max(a, 0), MaxUsage)+min(max(b, 0), MaxUsage-1), MaxUsage)
}
