package main

import (
	"fmt"
	"strings"
)

// savingRows are those of jobs that are stopped, saved, restored and moved.
func savingRows(s sizes) []row {
	var rows []row
	for _, mib := range s.frozenMiB {
		rows = append(rows, row{freezeTime(mib), fmt.Sprintf("freeze: %s of memory, until all is frozen, %d times", mebibytes(mib), s.freezes), "ms", 1})
	}
	for _, mib := range s.savedMiB {
		of := mebibytes(mib)
		rows = append(rows,
			row{saveWhole(mib), "save: " + of + " (bare: criu dump, as much written, synced)", "ms", 0},
			row{saveStood(mib), "save: " + of + ", the job was frozen (bare: criu dump)", "ms", 0},
			row{saveAgain(mib), "save: " + of + ", once more", "ms", 0},
			row{saveWritten(mib), "save: " + of + ", once more, share written", "%", 2},
			row{restoreRun(mib), "restore: " + of + ", until it runs (bare: criu restore)", "ms", 0},
			row{restoreCold(mib), "restore: " + of + ", files of CRIU that are on the disk only", "ms", 0},
			row{saveRestore(mib), "save and restore: " + of + " (bare: both of the above)", "ms", 0},
			row{freshTime(mib), "memory: " + of + " that no process had, written to for the first time", "ms", 0},
			row{shimPeak(mib), "save, restore: " + of + ", peak memory of the supervisor", "MiB", 0},
			row{moveTime(mib), "migrate: " + of + ", to a node with another store", "ms", 0},
			row{straightTime(mib), "migrate: " + of + ", the same, straight from node to node", "ms", 0},
			row{nodedPeak(mib), "migrate: " + of + ", peak memory of gnoded", "MiB", 0},
		)
	}
	return rows
}

func mebibytes(mib int) string { return thousands(float64(mib), 0) + " MiB" }

// Limits of the aims.
const (
	// judgedMiB is the memory of the job by which saving is compared with CRIU.
	judgedMiB = 1000
	// flatMiB is what a daemon may take whatever an image's size: its program,
	// and the bounded memory of a store (package checkpoint/store).
	flatMiB = 192
	// sameFreeze is how much longer it may take to stop the largest job than the
	// smallest and still take "as long": what two measurements differ by.
	sameFreeze = 1.5
	// What a save and a restore may take of CRIU's own time, and a restore alone; and a
	// move, of a save and a restore.
	mostSaveRestore = 1.5
	mostRestore     = 2
	mostMove        = 1.3
)

// savingAims judge those rows.
func (t *table) savingAims() []aim {
	atMost := func(what, unit string, digits int, limit, x float64) aim {
		return aim{what, thousands(x, digits) + " " + unit, x > 0 && x <= limit, x > 0}
	}
	var frozen []measure
	for _, r := range t.rows {
		if strings.HasPrefix(string(r.measure), "freeze.") {
			frozen = append(frozen, r.measure)
		}
	}
	grows := 0.0
	if len(frozen) > 1 {
		grows = t.pairedRatio(frozen[len(frozen)-1], ours, frozen[0], ours)
	}
	return []aim{
		atMost("a job is frozen within 100 ms after the order, at the 99th percentile, whatever its memory", "ms", 1, 100, t.worst("freeze.", 0.99)),
		atMost("and the largest as soon as the smallest, at the median", "x", 2, sameFreeze, grows),
		atMost(fmt.Sprintf("save and restore of %s at most %.1f x CRIU and writing as many bytes", mebibytes(judgedMiB), mostSaveRestore), "x", 2, mostSaveRestore, t.ratio(saveRestore(judgedMiB), bareColumn)),
		atMost(fmt.Sprintf("a restore of %s alone at most %d x CRIU", mebibytes(judgedMiB), mostRestore), "x", 2, mostRestore, t.ratio(restoreRun(judgedMiB), bareColumn)),
		atMost(fmt.Sprintf("a move of %s at most %.1f x its save and restore", mebibytes(judgedMiB), mostMove), "x", 2, mostMove, t.movedRatio()),
		atMost("a job that has not changed writes under 5 % when it is saved again", "%", 2, 5, t.worst("save.again.written.", 1)),
		atMost(fmt.Sprintf("its supervisor takes at most %d MiB, whatever the image's size", flatMiB), "MiB", 0, flatMiB, t.worst("save.memory.", 1)),
		atMost("and gnoded too, on both nodes of a move", "MiB", 0, flatMiB, t.worst("move.memory.", 1)),
	}
}

// movedRatio compares medians: a move is measured once for several saves.
func (t *table) movedRatio() float64 {
	move, rest := t.figures(moveTime(judgedMiB), ours), t.figures(saveRestore(judgedMiB), ours)
	if move == nil || rest == nil {
		return 0
	}
	return move.Median / rest.Median
}

// worst is the largest quantile of Gleaner's figures in the rows whose measures
// begin with a prefix; 0 = there are none.
func (t *table) worst(prefix string, share float64) (most float64) {
	for _, r := range t.rows {
		if f := t.figures(r.measure, ours); f != nil && strings.HasPrefix(string(r.measure), prefix) {
			most = max(most, quantile(f.Values, share))
		}
	}
	return most
}
