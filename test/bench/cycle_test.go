package main

import "testing"

// TestParseBackfill reads what sdiag of Slurm 26.05 prints, of which the part about the
// main scheduler has lines of the same names.
func TestParseBackfill(t *testing.T) {
	c, err := parseBackfill(`Main schedule statistics (microseconds):
	Last cycle:   14021
	Total cycles: 12

Backfilling stats
	Total backfilled jobs (since last slurm start): 0
	Total cycles: 3
	Last cycle when: Tue Nov 24 18:03:01 2026 (1795543381)
	Last cycle: 5023411
	Max cycle:  5023411
	Last depth cycle: 500
	Last depth cycle (try sched): 500
`)
	if err != nil || c != (backfillCycle{3, 5023411, 500}) {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"", "Main schedule statistics\n\tLast cycle: 1\n", "Backfilling stats\n\tLast cycle: soon\n", "Backfilling stats\n\tLast cycle:\n"} {
		if c, err := parseBackfill(bad); err == nil {
			t.Errorf("%q: %+v", bad, c)
		}
	}
}
