package main

import (
	"fmt"
	"slices"
)

// sizes say how much is measured.
type sizes struct {
	name          string
	rounds        int // of submissions and of starts
	commands      int // submitted one after another by the command line, in a round
	manyCommands  int // by 8 command lines at once
	calls         int // by one client of the interface
	manyCalls     int // by 8
	starts        int // measured one by one in a round
	jobRounds     int // rounds with a batch of /bin/true
	jobs          int // in such a batch
	memoryRounds  int
	few, many     int // waiting jobs whose memory and listing are measured
	manyRounds    int // with the larger number
	lists         int // listings of each queue
	records       int // arrays of a million, and other jobs
	loaders       int // clients that fill a queue
	crowd         int // clients that keep three controllers busy
	arrayTasks    int
	hugeArrayTask int
	peerRounds    int   // of submissions to one controller and to three
	kills         int   // of the leader of three
	restarts      int   // of a controller with many jobs
	imageRounds   int   // of images of jobs
	imageMiB      int   // that one has
	freezes       int   // of a job
	frozenMiB     []int // memory of jobs that are stopped
	savedRounds   int   // of jobs that are saved and restored
	savedMiB      []int // memory of those
	stepRounds    int   // of jobs with many steps
	steps         int   // that one has
	pastRuns      int   // that are over
	pastRounds    int   // of looks at those of a week
	cycleRounds   int   // of scheduling cycles
	cycleNodes    int   // that are full
	cycleJobs     int   // that wait
	reclaimRounds int   // of owners who take nodes back
	reclaimedMiB  []int // memory of their guests
	networkRounds int   // of networks of jobs
	networkMS     int   // for how long each way carries a stream, in milliseconds
	elsewhereS    int   // for how long others are watched meanwhile, in seconds
}

var plans = map[string]sizes{
	// Everything once, to see that the program works; its figures say nothing.
	"smoke": {
		name: "smoke", rounds: 1, commands: 5, manyCommands: 16, calls: 20, manyCalls: 80, starts: 2, jobRounds: 1, jobs: 20,
		memoryRounds: 1, few: 500, many: 2000, manyRounds: 1, lists: 2, records: 10, loaders: 8, crowd: 16, arrayTasks: 10_000, hugeArrayTask: 1_000_000,
		peerRounds: 1, kills: 2, restarts: 1, imageRounds: 1, imageMiB: 32,
		freezes: 3, frozenMiB: []int{10}, savedRounds: 1, savedMiB: []int{50},
		stepRounds: 1, steps: 20, pastRuns: 20_000, pastRounds: 2,
		cycleRounds: 1, cycleNodes: 50, cycleJobs: 500,
		reclaimRounds: 1, reclaimedMiB: []int{50}, elsewhereS: 3,
		networkRounds: 1, networkMS: 100,
	},
	"quick": {
		name: "quick", rounds: 3, commands: 25, manyCommands: 80, calls: 300, manyCalls: 1000, starts: 2, jobRounds: 1, jobs: 100,
		memoryRounds: 1, few: 10_000, many: 100_000, manyRounds: 1, lists: 5, records: 2000, loaders: 64, crowd: 256, arrayTasks: 10_000, hugeArrayTask: 1_000_000,
		peerRounds: 3, kills: 20, restarts: 3, imageRounds: 3, imageMiB: 1024,
		freezes: 100, frozenMiB: []int{10, 1000}, savedRounds: 3, savedMiB: []int{100, 1000},
		stepRounds: 1, steps: 1000, pastRuns: 1_000_000, pastRounds: 20,
		cycleRounds: 1, cycleNodes: 1000, cycleJobs: 10_000,
		reclaimRounds: 3, reclaimedMiB: []int{100, 1000}, elsewhereS: 15,
		networkRounds: 3, networkMS: 1000,
	},
	"full": {
		name: "full", rounds: 5, commands: 60, manyCommands: 240, calls: 1000, manyCalls: 4000, starts: 5, jobRounds: 3, jobs: 200,
		memoryRounds: 2, few: 10_000, many: 100_000, manyRounds: 1, lists: 11, records: 2000, loaders: 64, crowd: 256, arrayTasks: 10_000, hugeArrayTask: 1_000_000,
		peerRounds: 5, kills: 20, restarts: 5, imageRounds: 5, imageMiB: 1024,
		freezes: 100, frozenMiB: []int{10, 100, 1000}, savedRounds: 5, savedMiB: []int{100, 1000, 4000},
		stepRounds: 3, steps: 1000, pastRuns: 1_000_000, pastRounds: 50,
		cycleRounds: 3, cycleNodes: 1000, cycleJobs: 10_000,
		reclaimRounds: 5, reclaimedMiB: []int{100, 1000}, elsewhereS: 20,
		networkRounds: 5, networkMS: 3000,
	},
}

func rowsOf(s sizes) []row {
	few, many := thousands(float64(s.few), 0), thousands(float64(s.many), 0)
	return append([]row{
		{cliOne, "submit: command line, one by one", "/s", 0},
		{cliEight, "submit: command line, 8 at once", "/s", 0},
		{apiOne, "submit: API, 1 client", "/s", 0},
		{apiEight, "submit: API, 8 clients", "/s", 0},
		{arraySubmit, "submit: one array of " + thousands(float64(s.arrayTasks), 0) + ", command line", "ms", 1},
	}, slices.Concat(startRows(), []row{
		{trueJobs, fmt.Sprintf("run: /bin/true end to end, %d jobs", s.jobs), "/s", 1},
		{memoryAlike, "memory: each of " + few + " jobs alike", "B", 0},
		{memoryDiffer, "memory: each of " + few + " jobs, names differ", "B", 0},
		{memoryAlikeMany, "memory: each of " + many + " jobs alike", "B", 0},
		{memoryDifferMany, "memory: each of " + many + " jobs, names differ", "B", 0},
		{listFirst, "list: " + few + " jobs, first line", "ms", 1},
		{listWhole, "list: " + few + " jobs, whole", "ms", 1},
		{listFirstMany, "list: " + many + " jobs, first line", "ms", 1},
		{listWholeMany, "list: " + many + " jobs, whole", "ms", 1},
		{emptyQueue, "process: gqueue, squeue, empty queue", "ms", 1},
		{emptySubmit, "process: gsubmit, sbatch, idle controller", "ms", 1},
		{oneTime, "array: one job, by API", "ms", 2},
		{millionTime, "array: a million tasks, by API", "ms", 2},
		{oneMemory, fmt.Sprintf("array: memory of a job, of %d", s.records), "B", 0},
		{millionMemory, fmt.Sprintf("array: memory of a million tasks, of %d", s.records), "B", 0},
	}, networkRows(), stepRows(s), historyRows(s), cycleRows(s), severalRows(s), imageRows(s), savingRows(s), reclaimRows(s))...)
}

// imageRows are those of what is kept of a saved job. Bare is the same bytes
// written and synced.
func imageRows(s sizes) []row {
	many := thousands(float64(s.imageMiB), 0) + " MiB"
	return []row{
		{imagePut, "image: " + many + " into a store (bare: written, synced)", "ms", 0},
		{imageAgain, "image: the same once more", "ms", 0},
		{imageWritten, "image: the same once more, share written", "%", 2},
		{imageGet, "image: " + many + " out of a store (bare: written, synced)", "ms", 0},
	}
}

// severalRows are those of the clusters of several controllers, and of what one
// controller keeps.
func severalRows(s sizes) []row {
	many := thousands(float64(s.many), 0)
	return []row{
		{peersOne, fmt.Sprintf("submit: API, %d clients, one controller and no other (bare: raft alone)", s.loaders), "/s", 0},
		{peersThree, fmt.Sprintf("submit: API, %d clients, three controllers (bare: raft alone)", s.loaders), "/s", 0},
		{crowdOne, fmt.Sprintf("submit: API, %d clients, one controller and no other (bare: raft alone)", s.crowd), "/s", 0},
		{crowdThree, fmt.Sprintf("submit: API, %d clients, three controllers (bare: raft alone)", s.crowd), "/s", 0},
		{failoverSubmit, fmt.Sprintf("fail-over: a submission after kill -9 of the leader of three, %d times", s.kills), "ms", 0},
		{failoverNodes, "fail-over: until every node has a session again", "ms", 0},
		{restartTime, "restart: until ready after kill -9, " + many + " jobs", "ms", 0},
		{snapshotStall, "snapshot: longest submission around one, " + many + " jobs", "ms", 1},
	}
}
