package sched

import "slices"

// sorted puts turns in order, of which keys ascend where they come later: the rank of the
// tier above the priority. There may be a million, and what sets them apart are a
// few tiers and priorities of 32 bits; where they come in the order of their jobs, as they
// do from the state, these are counted and not compared.
func (p *pass) sorted(entries []entry, keys []uint64) []entry {
	if p.ascending {
		return byKey(entries, keys, p.scratch)
	}
	slices.SortFunc(entries, compareEntries)
	return entries
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
