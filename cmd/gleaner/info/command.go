package info

import (
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// infoVariable are the variables that give an option of ginfo.
func infoVariable(suffix string) []string { return []string{"GINFO_" + suffix, "SINFO_" + suffix} }

// Command is the table of ginfo.
func Command() *option.Command {
	return &option.Command{
		Name: "info", Alias: "sinfo", Summary: "show partitions and nodes", Usage: "[options]",
		Description: []string{
			"ginfo shows the partitions, and for each the nodes in each state. The default partition has a * after its name, a node that does not respond one after its state, and one that its owner has reclaimed, or that is kept for maintenance, a $.",
			"The columns are those of sinfo, and after them GPUS(F/T): by model, how many GPUs are free to be given to a job now, and how many there are.",
			"A node that promises more CPUs than it has, as in a cluster for development, is named below the table, on standard error.",
			"The fields by their names for -O and, in brackets, their letters for -o and --sort: " + strings.Join(show.NodeTable.Legend(), ", ") + ". A # in the place of a field's size makes it as wide as its widest value.",
		},
		Options: infoOptions(), Run: runInfo, Examples: infoExamples,
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "the table was printed"}, {Status: "1", Help: "a bad option, or no controller answers"}},
		Variables:  []option.Variable{{Name: "SLURM_TIME_FORMAT", Help: "how times are written: standard, relative, or a format of strftime(3)"}},
		SeeAlso:    []string{"gqueue", "gsubmit", "gcontrol"},
	}
}

var infoExamples = []option.Example{
	{Text: "Every node with its GPUs, those in use and the free ones", Command: "ginfo -N -O NodeList,StateLong,Gres,GresUsed:40,GPUs"},
	{Text: "Nodes that take no jobs, and why", Command: "ginfo -R"},
	{Text: "Idle CPUs of a partition, for a script", Command: "ginfo -h -p gpu -o %C"},
}

func infoOptions() []option.Option {
	return slices.Concat([]option.Option{
		{Long: "all", Short: 'a', Environment: infoVariable("ALL"), Help: "all partitions; they are always shown"},
		{Long: "dead", Short: 'd', Help: "only nodes that do not respond"},
		{Long: "exact", Short: 'e', Help: "nodes that differ in a size get separate lines, instead of the smallest one with a +"},
		{Long: "format", Short: 'o', Argument: "format", Environment: infoVariable("FORMAT"), Default: infoFormat, Help: "the columns, as in \"%P %D %t\""},
		{Long: "Format", Short: 'O', Argument: "name[:size][,...]", Help: "the columns by their names, as in \"NodeList,Gres:40\""},
		{Long: "hide", Help: "leave out hidden partitions; there are none"},
		{Long: "iterate", Short: 'i', Argument: "seconds", Help: "show the table again and again, with the time above it"},
		show.JSONOption(),
		show.YAMLOption(),
		{Long: "list-reasons", Short: 'R', Help: "why nodes are down or drained"},
		{Long: "long", Short: 'l', Help: "more columns"},
		{Long: "Node", Short: 'N', Help: "one line for each node and partition"},
		{Long: "noconvert", Help: "sizes in their own unit; they always are"},
		{Long: "nodes", Short: 'n', Argument: "nodes", Help: "only these nodes, as in n[1-4]"},
		{Long: "noheader", Short: 'h', Help: "no header line"},
		{Long: "partition", Short: 'p', Argument: "partition[,...]", Environment: infoVariable("PARTITION"), Help: "only these partitions"},
		{Long: "reservation", Short: 'T', Help: "the reservations, a line each, in place of the nodes"},
		{Long: "responding", Short: 'r', Help: "only nodes that respond"},
		{Long: "sort", Short: 'S', Argument: "fields", Environment: infoVariable("SORT"), Default: "#P,-t, with --Node N", Help: "the order: letters of -o, each with a - before it for falling"},
		{Long: "states", Short: 't', Argument: "state[,...]", Help: "only nodes in one of these states (idle, mix, alloc, drain, down, reclaimed, resv, maint, …); with & between them, in all of them"},
		{Long: "summarize", Short: 's', Help: "one line for each partition, with its nodes counted by state"},
		{Long: "future", Short: 'F', Help: "nodes that are still to come too; there are none, since nodes appear when they register"},
		{Long: "verbose", Short: 'v', Help: "accepted and without effect"},
		client.ClusterOption("SLURM_CLUSTERS"),
	}, client.FederationOptions("federation", "local"))
}
