package acct

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// Command is the table of gacct.
func Command() *option.Command {
	return &option.Command{
		Name: "acct", Alias: "sacct", Summary: "show jobs and their steps, those that are long over too", Usage: "[options]",
		Description: []string{
			"gacct shows jobs that wait, run or are over, from the history that the controllers keep. A job is a line, and so is its batch script once it has started (12.batch). Without --allusers, --user and --jobs these are one's own; root sees all.",
			"Without --jobs and --state it shows what was there since midnight; with --jobs all time. --state=PENDING and RUNNING mean jobs that were so at some time between --starttime and --endtime, the other states jobs that ended in between.",
			"Of a job that ran several times it shows the last run; --duplicates shows all. A run after which the job waited again is REQUEUED, unless it was preempted or its node failed.",
			"Fields beyond those of sacct: Borrowed is what a run had on nodes of owners to whom the job does not belong; Preemptions counts those of the job so far, LostGPUSeconds is the work that they cost, KeptGPUSeconds what was not lost because a run resumed from an image, UndoneSeconds what was lost with images; Restarts counts its requeues.",
		},
		Options: options(), Run: runAcct,
		Examples: []option.Example{
			{Text: "My jobs of today", Command: "gacct"},
			{Text: "What became of a job", Command: "gacct -j 12 -o JobID,State%20,ExitCode,Elapsed,MaxRSS,NodeList"},
			{Text: "The last two days, for a script", Command: "gacct -X -n -P -S now-2days -o JobIDRaw,State,ExitCode"},
			{Text: "Every run of a job that was requeued", Command: "gacct -D -X -j 12"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "the list was printed, even if it is empty"}, {Status: "1", Help: "a bad option, or no controller answers"}},
		Variables: []option.Variable{
			{Name: "SACCT_FORMAT", Help: "the columns, where --format gives none"},
			{Name: "SLURM_TIME_FORMAT", Help: "how times are written: standard, relative, or a format of strftime(3)"},
			{Name: "SLURM_BITSTR_LEN", Help: "how many bytes of an array's waiting tasks are shown; 64 if unset, 0 for all"},
		},
		SeeAlso: []string{"gqueue", "gcontrol", "gshare"},
	}
}

func options() []option.Option {
	return append([]option.Option{
		{Long: "accounts", Short: 'A', Argument: "account[,...]", Aliases: []string{"account"}, Help: "only jobs of these accounts"},
		{Long: "allocations", Short: 'X', Help: "only jobs, without their steps"},
		{Long: "allusers", Short: 'a', Help: "the jobs of all users, as far as one may see them"},
		{Long: "batch-script", Short: 'B', Help: "the scripts of the jobs of --jobs, as long as these are remembered (MinJobAge); later NONE"},
		{Long: "brief", Short: 'b', Help: "only JobID, State and ExitCode"},
		{Long: "delimiter", Argument: "text", Help: "what separates the columns, in place of |"},
		{Long: "duplicates", Short: 'D', Help: "all runs of a job, not only the last"},
		{Long: "endtime", Short: 'E', Argument: "time", Help: "only jobs that could have started before this time, as for --starttime"},
		{Long: "format", Short: 'o', Argument: "name[%size][,...]", Aliases: []string{"fields"}, Default: defaultFormat, Help: "the columns, in any case, as in \"JobID,JobName%30,State\"; a minus before the size puts the blanks behind; ALL is all"},
		{Long: "gid", Short: 'g', Argument: "group[,...]", Aliases: []string{"group"}, Help: "only jobs of these groups, by name or number"},
		{Long: "helpformat", Short: 'e', Help: "the names of all columns"},
		{Long: "jobs", Short: 'j', Argument: "job[,...]", Help: "only these jobs (12), arrays, array tasks (12_3, 12_[1-5]) or steps (12.batch)"},
		show.JSONOption(),
		show.YAMLOption(),
		{Long: "long", Short: 'l', Help: "many columns"},
		{Long: "name", Argument: "name[,...]", Help: "only jobs of these names"},
		{Long: "noconvert", Help: "memory in megabytes, never in a larger unit"},
		{Long: "ncpus", Short: 'I', Argument: "min[-max]", Help: "only jobs that had so many CPUs"},
		{Long: "nnodes", Short: 'i', Argument: "min[-max]", Help: "only jobs that had so many nodes"},
		{Long: "nodelist", Short: 'N', Argument: "nodes", Help: "only jobs that ran on these nodes, as in n[1-4]"},
		{Long: "noheader", Short: 'n', Help: "no header lines"},
		{Long: "parsable", Short: 'p', Help: "columns separated by |, with one at the end"},
		{Long: "parsable2", Short: 'P', Help: "columns separated by |, without one at the end"},
		{Long: "partition", Short: 'r', Argument: "partition[,...]", Help: "only jobs in these partitions"},
		{Long: "qos", Short: 'q', Argument: "qos[,...]", Help: "only jobs of these qualities of service"},
		{Long: "reason", Short: 'R', Argument: "reason[,...]", Help: "only jobs that waited, or ended, for one of these reasons"},
		{Long: "starttime", Short: 'S', Argument: "time", Help: "only jobs that were not over before this time: 2030-01-20[T16:00], 0120, 16:00, midnight, now-2days"},
		{Long: "state", Short: 's', Argument: "state[,...]", Help: "only jobs that were in these states (R, CD, failed, …) in that time"},
		{Long: "timelimit-max", Short: 'K', Argument: "time", Help: "with --timelimit-min: only jobs with a time limit between the two"},
		{Long: "timelimit-min", Short: 'k', Argument: "time", Help: "only jobs with this time limit"},
		{Long: "truncate", Short: 'T', Help: "cut the times of jobs, and what follows from them, to those between --starttime and --endtime"},
		{Long: "units", Argument: "K|M|G|T|P", Help: "the unit of amounts of memory"},
		{Long: "user", Short: 'u', Argument: "user[,...]", Aliases: []string{"uid"}, Help: "only jobs of these users, by name or number"},
		{Long: "wckeys", Short: 'W', Argument: "wckey[,...]", Help: "only jobs with one of these workload characterization keys"},
	}, later()...)
}

// later are options of sacct that have no effect here, or are refused by name.
func later() []option.Option {
	return append([]option.Option{
		{Long: "allclusters", Short: 'L', Help: "accepted and without effect: this cluster is the only one"},
		client.ClusterOption("SLURM_CLUSTERS"),
		{Long: "completion", Short: 'c', Later: "there is one record of each job, which gacct shows without this option"},
		{Long: "file", Short: 'f', Argument: "file", Later: "leave the option out: the controllers have the history"},
		{Long: "env-vars", Later: "the environment of a job is not kept"},
		{Long: "flags", Short: 'F', Argument: "flags", Later: "leave the option out"},
		{Long: "associations", Short: 'x', Argument: "ids", Later: "use --accounts and --user"},
		{Long: "whole-hetjob", Argument: "yes|no", OptionalArgument: true, Help: "accepted and without effect: there are no heterogeneous jobs"},
		{Long: "verbose", Short: 'v', Help: "accepted and without effect"},
	}, client.FederationOptions("federation", "local")...)
}
