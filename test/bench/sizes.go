package main

import "fmt"

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
	records       int // arrays of a million, and jobs beside them
	loaders       int // clients that fill a queue
	arrayTasks    int
	hugeArrayTask int
}

var plans = map[string]sizes{
	// Everything once, to see that the program works; its figures say nothing.
	"smoke": {
		name: "smoke", rounds: 1, commands: 5, manyCommands: 16, calls: 20, manyCalls: 80, starts: 2, jobRounds: 1, jobs: 20,
		memoryRounds: 1, few: 500, many: 2000, manyRounds: 1, lists: 2, records: 10, loaders: 8, arrayTasks: 10_000, hugeArrayTask: 1_000_000,
	},
	"quick": {
		name: "quick", rounds: 3, commands: 25, manyCommands: 80, calls: 300, manyCalls: 1000, starts: 4, jobRounds: 1, jobs: 200,
		memoryRounds: 1, few: 10_000, many: 100_000, manyRounds: 1, lists: 5, records: 2000, loaders: 32, arrayTasks: 10_000, hugeArrayTask: 1_000_000,
	},
	"full": {
		name: "full", rounds: 5, commands: 60, manyCommands: 240, calls: 1000, manyCalls: 4000, starts: 6, jobRounds: 3, jobs: 200,
		memoryRounds: 3, few: 10_000, many: 100_000, manyRounds: 1, lists: 11, records: 2000, loaders: 32, arrayTasks: 10_000, hugeArrayTask: 1_000_000,
	},
}

func rowsOf(s sizes) []row {
	few, many := thousands(float64(s.few), 0), thousands(float64(s.many), 0)
	return []row{
		{cliOne, "submissions by command line, one after another", "/s", 0},
		{cliEight, "submissions by command line, 8 at once", "/s", 0},
		{apiOne, "submissions by API, 1 client (Slurm: libslurm)", "/s", 0},
		{apiEight, "submissions by API, 8 clients (Slurm: libslurm)", "/s", 0},
		{arraySubmit, fmt.Sprintf("one array of %s by command line", thousands(float64(s.arrayTasks), 0)), "ms", 1},
		{startBare1, "submit to first instruction (bare: libcontainer, same settings)", "ms", 1},
		{startFork, "submit to first instruction (bare: fork and exec)", "ms", 1},
		{trueJobs, fmt.Sprintf("/bin/true end to end, %d jobs on one node", s.jobs), "/s", 1},
		{memoryAlike, "controller memory per waiting job, " + few + " alike", "B", 0},
		{memoryDiffer, "the same, every name different", "B", 0},
		{memoryAlike2, "controller memory per waiting job, " + many + " alike", "B", 0},
		{memoryDiffer2, "the same, every name different", "B", 0},
		{listFirst, few + " jobs listed, first line", "ms", 1},
		{listWhole, few + " jobs listed, whole", "ms", 1},
		{listFirst2, many + " jobs listed, first line", "ms", 1},
		{listWhole2, many + " jobs listed, whole", "ms", 1},
		{emptyQueue, "gqueue (squeue) of an empty queue, whole process", "ms", 1},
		{emptySubmit, "gsubmit (sbatch) to an idle controller, whole process", "ms", 1},
		{oneTime, "one job by API", "ms", 2},
		{millionTime, "an array of a million tasks by API", "ms", 2},
		{oneMemory, fmt.Sprintf("controller memory per job (of %d)", s.records), "B", 0},
		{millionMemory, fmt.Sprintf("controller memory per array of a million (of %d)", s.records), "B", 0},
	}
}
