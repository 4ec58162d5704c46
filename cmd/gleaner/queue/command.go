package queue

import (
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/steps"
)

// queueVariable are the variables that give an option of gqueue.
func queueVariable(suffix string) []string { return []string{"GQUEUE_" + suffix, "SQUEUE_" + suffix} }

// Command is the table of gqueue.
func Command() *option.Command {
	return &option.Command{
		Name: "queue", Alias: "squeue", Summary: "show jobs", Usage: "[options]",
		Description: []string{
			"gqueue lists jobs that wait, run or are cleaning up; with --states also those that have ended and are still remembered (MinJobAge, see gcontrol show config).",
			"The tasks of an array that wait are one line, 108_[0-9%2], unless --array asks for one line each. Lines are sorted by partition, state and falling priority. Of more than 10,000 lines the first comes at once and the order is that of the job numbers; --sort forces another order by waiting for the whole list.",
			"A format string of -o is any text with fields %[[.]size]type, where size cuts or fills the field and a dot puts the blanks before it. -O takes names, name[:[.][size][suffix]], 20 wide unless said otherwise.",
			"The fields by their names for -O and, in brackets, their letters for -o and --sort: " + strings.Join(show.JobTable.Legend(), ", ") + ".",
			"Of --steps they are: " + strings.Join(steps.Table.Legend(), ", ") + ".",
		},
		Options:    queueOptions(),
		Run:        runQueue,
		Examples:   queueExamples,
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "the list was printed, even if it is empty"}, {Status: "1", Help: "a bad option, the one job asked for does not exist, or no controller answers"}},
		Variables: []option.Variable{
			{Name: "SLURM_TIME_FORMAT", Help: "how times are written: standard, relative, or a format of strftime(3)"},
			{Name: "SLURM_BITSTR_LEN", Help: "how many bytes of an array's waiting tasks are shown; 64 if unset, 0 for all"},
		},
		SeeAlso: []string{"gsubmit", "gcancel", "ginfo", "gcontrol"},
	}
}

var queueExamples = []option.Example{
	{Text: "My jobs, and why they wait", Command: "gqueue --me -O JobArrayID,State,ReasonList:24,ReasonDetail:80"},
	{Text: "The states and exit codes of an array's tasks, for a script", Command: "gqueue -h -t all -r -j 108 -o '%i %T'"},
	{Text: "Running jobs of two users, every 5 seconds", Command: "gqueue -u ada,grace -t R -i 5"},
	{Text: "Why a job waits, and what would help", Command: "gqueue --why 12"},
	{Text: "As JSON", Command: "gqueue --json --states=all"},
}

func queueOptions() []option.Option {
	return slices.Concat([]option.Option{
		{Long: "account", Short: 'A', Argument: "account[,...]", Environment: queueVariable("ACCOUNT"), Help: "only jobs of these accounts"},
		{Long: "all", Short: 'a', Environment: queueVariable("ALL"), Help: "jobs in all partitions; they are always shown"},
		{Long: "array", Short: 'r', Environment: queueVariable("ARRAY"), Aliases: []string{"array-unique"}, Help: "one line for each task of an array, also those that wait"},
		{Long: "format", Short: 'o', Argument: "format", Environment: queueVariable("FORMAT"), Default: queueFormat, Help: "the columns, as in \"%.18i %.9P %R\""},
		{Long: "Format", Short: 'O', Argument: "name[:size][,...]", Environment: queueVariable("FORMAT2"), Help: "the columns by their names, as in \"JobID,Name:12,State\""},
		{Long: "hide", Help: "leave out hidden partitions; there are none"},
		{Long: "iterate", Short: 'i', Argument: "seconds", Help: "show the queue again and again, with the time above it"},
		{Long: "jobs", Short: 'j', Argument: "job[,...]", OptionalArgument: true, Help: "only these jobs, arrays (12) or array tasks (12_3, 12_[1-5])"},
		show.JSONOption(),
		show.YAMLOption(),
		{Long: "licenses", Short: 'L', Argument: "name[,...]", Help: "only jobs that ask for one of these licenses"},
		{Long: "long", Short: 'l', Help: "more columns: the state in full and the time limit"},
		{Long: "me", Help: "only my own jobs"},
		{Long: "name", Short: 'n', Argument: "name[,...]", Environment: queueVariable("NAMES"), Aliases: []string{"names"}, Help: "only jobs of these names"},
		{Long: "noconvert", Help: "memory in megabytes, never in a larger unit"},
		{Long: "nodelist", Short: 'w', Argument: "nodes", Aliases: []string{"nodes"}, Help: "only jobs that run on these nodes, as in n[1-4]"},
		{Long: "noheader", Short: 'h', Help: "no header line"},
		{Long: "only-job-state", Help: "by default only the number and the state of each job"},
		{Long: "partition", Short: 'p', Argument: "partition[,...]", Environment: queueVariable("PARTITION"), Help: "only jobs in these partitions"},
		{Long: "priority", Short: 'P', Environment: queueVariable("PRIORITY"), Help: "a line in each partition for waiting jobs that name several"},
		{Long: "qos", Short: 'q', Argument: "qos[,...]", Environment: queueVariable("QOS"), Help: "only jobs of these qualities of service"},
		{Long: "reservation", Short: 'R', Argument: "reservation[,...]", Help: "only jobs that name these reservations"},
		{Long: "sort", Short: 'S', Argument: "fields", Environment: queueVariable("SORT"), Default: queueSort, Help: "the order: letters of -o, each with a - before it for falling"},
		{Long: "start", Help: "waiting jobs by their expected start"},
		{Long: "states", Short: 't', Argument: "state[,...]", Environment: queueVariable("STATES"), Aliases: []string{"state"}, Help: "only jobs in these states (PD, running, …), or all for every job still remembered"},
		{Long: "steps", Short: 's', Argument: "job.step[,...]", OptionalArgument: true, Help: "in place of jobs, the steps that run in one's own jobs (root: in all), or only these"},
		{Long: "user", Short: 'u', Argument: "user[,...]", Environment: queueVariable("USERS"), Aliases: []string{"users"}, Help: "only jobs of these users, by name or number"},
		{Long: "why", Argument: "job[,...]", Help: "in place of the list: why these jobs wait, when they will start, and which change would have them start sooner, with the command to type. Changes are tried on a copy of the queue"},
		{Long: "verbose", Short: 'v', Help: "accepted and without effect"},
		client.ClusterOption("SLURM_CLUSTERS"),
	}, client.FederationOptions("federation", "local", "sibling"))
}
