package main

import (
	"math"
	"slices"
)

// column is a side of the table.
type column string

const (
	ours       column = "Gleaner"
	slurmPlain column = "Slurm"
	slurmTuned column = "Slurm tuned"
	bareColumn column = "bare"
)

var columns = []column{ours, slurmPlain, slurmTuned, bareColumn}

// measure names a row.
type measure string

const (
	cliOne           measure = "submit.command.1"
	cliEight         measure = "submit.command.8"
	apiOne           measure = "submit.api.1"
	apiEight         measure = "submit.api.8"
	arraySubmit      measure = "submit.array"
	startBare        measure = "start.libcontainer"
	startFork        measure = "start.fork"
	startPrivate     measure = "start.private"
	trueJobs         measure = "jobs"
	memoryAlike      measure = "memory.alike"
	memoryDiffer     measure = "memory.different"
	memoryAlikeMany  measure = "memory.alike.many"
	memoryDifferMany measure = "memory.different.many"
	listFirst        measure = "list.first"
	listWhole        measure = "list.whole"
	listFirstMany    measure = "list.first.many"
	listWholeMany    measure = "list.whole.many"
	emptySubmit      measure = "process.submit"
	emptyQueue       measure = "process.queue"
	oneTime          measure = "single.submit"
	millionTime      measure = "million.submit"
	oneMemory        measure = "single.memory"
	millionMemory    measure = "million.memory"
	peersOne         measure = "submit.api.peers.1"
	peersThree       measure = "submit.api.peers.3"
	crowdOne         measure = "submit.api.crowd.peers.1"
	crowdThree       measure = "submit.api.crowd.peers.3"
	failoverSubmit   measure = "failover.submit"
	failoverNodes    measure = "failover.nodes"
	restartTime      measure = "restart"
	snapshotStall    measure = "snapshot.stall"
	imagePut         measure = "image.put"
	imageAgain       measure = "image.again"
	imageWritten     measure = "image.again.written"
	imageGet         measure = "image.get"
	cycleJob         measure = "cycle.job"
	stepTime         measure = "step"
	historyWeek      measure = "history.week"
	cycleWhole       measure = "cycle"
	cycleExamined    measure = "cycle.examined"
)

// row is what a measure means.
type row struct {
	measure measure
	what    string
	unit    string
	digits  int // after the point
}

// cell holds what one side showed: the figures of each round.
type cell struct {
	rounds map[int][]float64
	why    string // there are none
}

// table collects figures.
type table struct {
	rows  []row
	cells map[measure]map[column]*cell
}

func newTable(s sizes) *table {
	return &table{rows: rowsOf(s), cells: map[measure]map[column]*cell{}}
}

func (t *table) cell(m measure, c column) *cell {
	if t.cells[m] == nil {
		t.cells[m] = map[column]*cell{}
	}
	if t.cells[m][c] == nil {
		t.cells[m][c] = &cell{rounds: map[int][]float64{}}
	}
	return t.cells[m][c]
}

// add notes figures of one round.
func (t *table) add(round int, m measure, c column, values ...float64) {
	here := t.cell(m, c)
	here.rounds[round] = append(here.rounds[round], values...)
}

// missing notes why a side has no figures for a measure; what it showed before
// stays.
func (t *table) missing(m measure, c column, why string) {
	t.cell(m, c).why = why
}

// figures are the median and the spread of one side of a row.
type figures struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Runs   int       `json:"runs"`
	Values []float64 `json:"values"` // as measured, in order
}

// figures returns nil when a side has none.
func (t *table) figures(m measure, c column) *figures {
	here := t.cell(m, c)
	var values []float64
	for _, round := range sortedRounds(here) {
		values = append(values, here.rounds[round]...)
	}
	if len(values) == 0 {
		return nil
	}
	return &figures{Median: median(values), Min: slices.Min(values), Max: slices.Max(values), Runs: len(values), Values: values}
}

// ratio is the median, over the rounds that both sides have, of Gleaner's
// median of the round divided by the other's; 0 when there is none.
func (t *table) ratio(m measure, other column) float64 {
	return t.pairedRatio(m, ours, m, other)
}

func (t *table) pairedRatio(m measure, c column, otherMeasure measure, other column) float64 {
	here, there := t.cell(m, c), t.cell(otherMeasure, other)
	var ratios []float64
	for _, round := range sortedRounds(here) {
		if values, both := there.rounds[round], here.rounds[round]; len(values) > 0 && len(both) > 0 && median(values) > 0 {
			ratios = append(ratios, median(both)/median(values))
		}
	}
	if len(ratios) == 0 {
		return 0
	}
	return median(ratios)
}

// pairedDifferences are by how much more one measure of a side had than another, of which
// each figure was measured beside one of the first.
func (t *table) pairedDifferences(m, without measure, c column) (differences []float64) {
	here, there := t.cell(m, c), t.cell(without, c)
	for _, round := range sortedRounds(here) {
		values, beside := here.rounds[round], there.rounds[round]
		for i := range min(len(values), len(beside)) {
			differences = append(differences, values[i]-beside[i])
		}
	}
	return differences
}

func sortedRounds(c *cell) []int {
	rounds := make([]int, 0, len(c.rounds))
	for round := range c.rounds {
		rounds = append(rounds, round)
	}
	slices.Sort(rounds)
	return rounds
}

// quantile is the smallest of at least one value that so large a share of them
// does not exceed.
func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(max(int(math.Ceil(share*float64(len(sorted))))-1, 0), len(sorted)-1)]
}

// median of at least one value.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
