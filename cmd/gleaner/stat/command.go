package stat

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

// Command is the table of gstat.
func Command() *option.Command {
	return &option.Command{
		Name: "stat", Alias: "sstat", Summary: "show what the steps of a running job use now", Usage: "[options] -j job[.step][,...]",
		Operands: []option.Variable{{Name: "job[.step]", Help: "as of --jobs"}},
		Description: []string{
			"gstat asks the nodes of a job what its steps use. Without the number of a step it shows the running step with the lowest number, and with --allsteps all of them, with the batch script.",
			"Memory is what the processes of a task have together now, of tasks that have ended the most that one of their processes had. Times and amounts read and written count from the start. A process that has made a session of its own (setsid) is not counted.",
			"What a step uses of GPUs is in TRESUsageInTot and TRESUsageInAve (now) and TRESUsageInMax (the most at one time so far, of the node in TRESUsageInMaxNode), where the node's driver tells: gres/gpumem, and gres/gpuutil in percent of one GPU. Nodes look every 10 seconds. The batch script's line has what all of the job uses.",
			"It answers for one's own jobs; root's for all. A suspended job answers nothing.",
		},
		Options: options(), Run: runStat,
		Examples: []option.Example{
			{Text: "What my job uses", Command: "gstat -j 12"},
			{Text: "All steps, for a script", Command: "gstat -a -n -P -j 12 -o JobID,AveCPU,MaxRSS,NTasks"},
			{Text: "The processes of the tasks", Command: "gstat -a -i -j 12"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "it was printed"}, {Status: "1", Help: "a bad option, a job that is not there or has no such step, or no controller answers"}},
		SeeAlso:    []string{"gacct", "geff", "gqueue"},
	}
}

func options() []option.Option {
	return []option.Option{
		{Long: "allsteps", Short: 'a', Help: "all running steps of a job, where --jobs names none"},
		{Long: "format", Short: 'o', Argument: "name[%size][,...]", Aliases: []string{"fields"}, Default: defaultFormat, Help: "the columns, in any case, as in \"JobID%20,AveCPU\"; a minus before the size puts the blanks behind; ALL is all"},
		{Long: "helpformat", Short: 'e', Help: "the names of all columns"},
		{Long: "jobs", Short: 'j', Argument: "job[.step][,...]", Help: "the jobs (12), array tasks (12_3) or steps (12.0, 12.batch)"},
		{Long: "json", Help: "a list of the steps, with all that is known of them"},
		{Long: "noconvert", Ignored: "amounts are never in a larger unit"},
		{Long: "noheader", Short: 'n', Help: "no header lines"},
		{Long: "parsable", Short: 'p', Help: "columns separated by |, with one at the end"},
		{Long: "parsable2", Short: 'P', Help: "columns separated by |, without one at the end"},
		{Long: "pidformat", Short: 'i', Help: "JobID, Nodes and Pids: the processes of the tasks, as numbered inside the job"},
		{Long: "verbose", Short: 'v', Ignored: "there is no more to say"},
	}
}
