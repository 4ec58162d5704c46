package place

import (
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxCPUs bounds the ids in a CPUSet: what an id costs in memory is bounded by
// the highest one.
const MaxCPUs = 1 << 16

// CPUSet is a set of CPU ids below MaxCPUs; higher ids are left out of any
// set. It is a value: no method changes it, and the zero CPUSet is empty.
type CPUSet struct {
	words []uint64 // bit i%64 of word i/64; the last word is not 0
}

// NewCPUSet is the set of the ids.
func NewCPUSet(ids ...uint32) CPUSet {
	top := uint32(0)
	for _, id := range ids {
		if id < MaxCPUs {
			top = max(top, id+1)
		}
	}
	words := make([]uint64, (top+63)/64)
	for _, id := range ids {
		if id < MaxCPUs {
			words[id/64] |= 1 << (id % 64)
		}
	}
	return trim(words)
}

// FirstCPUs is the set of the ids 0 to n-1.
func FirstCPUs(n uint32) CPUSet {
	n = min(n, MaxCPUs)
	words := make([]uint64, (n+63)/64)
	for i := range words {
		words[i] = ^uint64(0)
	}
	if n%64 != 0 {
		words[len(words)-1] = 1<<(n%64) - 1
	}
	return trim(words)
}

// Count is the number of ids.
func (s CPUSet) Count() int {
	n := 0
	for _, word := range s.words {
		n += bits.OnesCount64(word)
	}
	return n
}

// Empty says that there are no ids.
func (s CPUSet) Empty() bool { return len(s.words) == 0 }

// Contains reports whether id is in the set.
func (s CPUSet) Contains(id uint32) bool {
	return int(id/64) < len(s.words) && s.words[id/64]>>(id%64)&1 == 1
}

// Equal reports whether both sets have the same ids.
func (s CPUSet) Equal(other CPUSet) bool { return slices.Equal(s.words, other.words) }

// All ranges over the ids in ascending order.
func (s CPUSet) All() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i, word := range s.words {
			for ; word != 0; word &= word - 1 {
				if !yield(uint32(i*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}

// IDs is the ids in ascending order.
func (s CPUSet) IDs() []uint32 {
	return slices.AppendSeq(make([]uint32, 0, s.Count()), s.All())
}

// Add is the set with the ids.
func (s CPUSet) Add(ids ...uint32) CPUSet { return s.Union(NewCPUSet(ids...)) }

// Remove is the set without the ids.
func (s CPUSet) Remove(ids ...uint32) CPUSet { return s.Minus(NewCPUSet(ids...)) }

// Union is what is in either set.
func (s CPUSet) Union(other CPUSet) CPUSet {
	if len(s.words) < len(other.words) {
		s, other = other, s
	}
	words := slices.Clone(s.words)
	for i, word := range other.words {
		words[i] |= word
	}
	return trim(words)
}

// Minus is what is in s and not in other.
func (s CPUSet) Minus(other CPUSet) CPUSet {
	words := slices.Clone(s.words)
	for i := range min(len(words), len(other.words)) {
		words[i] &^= other.words[i]
	}
	return trim(words)
}

// Intersect is what is in both sets.
func (s CPUSet) Intersect(other CPUSet) CPUSet {
	words := slices.Clone(s.words[:min(len(s.words), len(other.words))])
	for i := range words {
		words[i] &= other.words[i]
	}
	return trim(words)
}

// Take is the n lowest ids, or all when there are fewer.
func (s CPUSet) Take(n int) CPUSet {
	if n >= s.Count() {
		return s
	}
	if n <= 0 {
		return CPUSet{}
	}
	words := make([]uint64, 0, len(s.words))
	for _, word := range s.words {
		if count := bits.OnesCount64(word); count <= n {
			words = append(words, word)
			n -= count
			continue
		}
		kept := uint64(0)
		for ; n > 0; n-- {
			lowest := word & -word
			kept |= lowest
			word &^= lowest
		}
		words = append(words, kept)
		break
	}
	return trim(words)
}

// trim drops empty words from the end, so that equal sets look the same.
func trim(words []uint64) CPUSet {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return CPUSet{}
	}
	return CPUSet{words}
}

// String writes the set as Linux does in cpuset.cpus: "0-3,7".
func (s CPUSet) String() string {
	var out strings.Builder
	ids := s.IDs()
	for i := 0; i < len(ids); {
		last := i
		for last+1 < len(ids) && ids[last+1] == ids[last]+1 {
			last++
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(strconv.FormatUint(uint64(ids[i]), 10))
		if last > i {
			out.WriteByte('-')
			out.WriteString(strconv.FormatUint(uint64(ids[last]), 10))
		}
		i = last + 1
	}
	return out.String()
}
