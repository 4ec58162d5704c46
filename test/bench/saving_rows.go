package main

import "fmt"

// savingRows are those of jobs that are stopped, saved, restored and moved.
func savingRows(s sizes) []row {
	var rows []row
	for _, mib := range s.frozenMiB {
		rows = append(rows, row{freezeTime(mib), fmt.Sprintf("freeze: %s of memory, until all stands, %d times", mebibytes(mib), s.freezes), "ms", 1})
	}
	for _, mib := range s.savedMiB {
		of := mebibytes(mib)
		rows = append(rows,
			row{saveWhole(mib), "save: " + of + " (bare: criu dump, as much written, synced)", "ms", 0},
			row{saveStood(mib), "save: " + of + ", the job stood (bare: criu dump)", "ms", 0},
			row{saveAgain(mib), "save: " + of + ", once more", "ms", 0},
			row{saveWritten(mib), "save: " + of + ", once more, share written", "%", 2},
			row{restoreRun(mib), "restore: " + of + ", until it runs (bare: criu restore)", "ms", 0},
			row{saveRestore(mib), "save and restore: " + of + " (bare: both of the above)", "ms", 0},
			row{shimPeak(mib), "save, restore: " + of + ", peak memory of the supervisor", "MiB", 0},
			row{moveTime(mib), "migrate: " + of + ", to a node with another store", "ms", 0},
			row{nodedPeak(mib), "migrate: " + of + ", peak memory of gnoded", "MiB", 0},
		)
	}
	return rows
}

func mebibytes(mib int) string { return thousands(float64(mib), 0) + " MiB" }
