package main

import "fmt"

// reclaimRows are those of owners who take nodes back.
func reclaimRows(s sizes) []row {
	var rows []row
	for _, mib := range s.reclaimedMiB {
		rows = append(rows,
			row{reclaimFree(mib), "reclaim: greclaim until the hardware is free, a guest of " + mebibytes(mib), "ms", 0},
			row{reclaimRuns(mib), "reclaim: until the owner's job runs, a guest of " + mebibytes(mib) + " (Slurm: requeued)", "ms", 0},
		)
	}
	return append(rows,
		row{calmSubmit, "elsewhere: a submission, while nothing is reclaimed", "ms", 2},
		row{reclaimSubmit, fmt.Sprintf("elsewhere: a submission, while %d nodes are reclaimed", takenNodes), "ms", 2},
		row{calmStart, "elsewhere: first instruction, while nothing is reclaimed", "ms", 1},
		row{reclaimStart, fmt.Sprintf("elsewhere: first instruction, while %d nodes are reclaimed", takenNodes), "ms", 1},
	)
}

// undisturbed is how much longer something may take during a reclaim elsewhere.
const undisturbed = 1.1

// reclaimAims judge those rows.
func (t *table) reclaimAims() []aim {
	freed := 0.0
	for _, r := range t.rows {
		var mib int
		if n, _ := fmt.Sscanf(string(r.measure), "reclaim.free.%d", &mib); n == 1 {
			if f := t.figures(r.measure, ours); f != nil {
				freed = max(freed, f.Median)
			}
		}
	}
	same := func(what string, during, calm measure) aim {
		x := t.pairedRatio(during, ours, calm, ours)
		return aim{what, fmt.Sprintf("%.3g x", x), x > 0 && x <= undisturbed, x > 0}
	}
	return []aim{
		{"an owner has the hardware of a guest within 300 ms, at the median, whatever its memory", thousands(freed, 0) + " ms", freed > 0 && freed <= 300, freed > 0},
		same(fmt.Sprintf("a submission takes at most 10 %% longer while %d nodes are reclaimed", takenNodes), reclaimSubmit, calmSubmit),
		same("and a start on another node", reclaimStart, calmStart),
	}
}
