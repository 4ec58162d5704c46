package sched

import "slices"

// sorted puts turns in order. There may be a million, and what sets them apart are a few
// tiers and priorities of 32 bits; where they come in the order of their jobs, as they do
// from the state, these are counted and not compared.
func sorted(entries []entry, memory *scratch) []entry {
	before := func(a, b entry) bool { return a.id < b.id || a.id == b.id && a.choice < b.choice }
	for i := 1; i < len(entries); i++ {
		if !before(entries[i-1], entries[i]) {
			slices.SortFunc(entries, compareEntries)
			return entries
		}
	}
	return byKey(entries, keysOf(entries, memory), memory)
}

// keysOf are numbers that ascend where turns come later: the rank of the tier above the
// priority.
func keysOf(entries []entry, memory *scratch) []uint64 {
	var tiers []uint64 // descending
	for i := range entries {
		if tier := entries[i].tier; i == 0 || tier != entries[i-1].tier {
			at, known := slices.BinarySearchFunc(tiers, tier, func(a, b uint64) int {
				switch {
				case a > b:
					return -1
				case a < b:
					return 1
				}
				return 0
			})
			if !known {
				tiers = slices.Insert(tiers, at, tier)
			}
		}
	}
	keys := sized(&memory.keys, len(entries))
	rank := 0
	for i := range entries {
		for tiers[rank] != entries[i].tier {
			rank = (rank + 1) % len(tiers)
		}
		keys[i] = uint64(rank)<<32 | uint64(^entries[i].priority)
	}
	return keys
}

// byKey sorts by numbers, one for each turn; turns of one number stay as they are.
func byKey(entries []entry, keys []uint64, memory *scratch) []entry {
	const bits, digits = 11, 1 << 11
	if len(entries) == 0 {
		return entries
	}
	// Priorities often are close to one another: what they differ by has few digits.
	least, differ := slices.Min(keys), uint64(0)
	for i := range keys {
		keys[i] -= least
		differ |= keys[i]
	}
	var nextEntries []entry
	var nextKeys []uint64
	for shift := 0; shift < 64; shift += bits {
		if differ>>shift&(digits-1) == 0 {
			continue
		}
		if nextEntries == nil {
			nextEntries, nextKeys = sized(&memory.otherEntries, len(entries)), sized(&memory.otherKeys, len(keys))
		}
		var at [digits]int32
		for _, key := range keys {
			at[key>>shift&(digits-1)]++
		}
		sum := int32(0)
		for digit, count := range at {
			at[digit], sum = sum, sum+count
		}
		for i, key := range keys {
			to := &at[key>>shift&(digits-1)]
			nextEntries[*to], nextKeys[*to] = entries[i], key
			*to++
		}
		entries, nextEntries, keys, nextKeys = nextEntries, entries, nextKeys, keys
	}
	return entries
}
