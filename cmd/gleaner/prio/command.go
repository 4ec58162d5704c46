package prio

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// Command is the table of gprio.
func Command() *option.Command {
	return &option.Command{
		Name: "prio", Alias: "sprio", Summary: "show what makes the priority of waiting jobs", Usage: "[options]",
		Description: []string{
			"gprio shows, for each job that waits and is eligible, its priority and what makes it: each factor times its weight, the site factor and the nice value. A job for several partitions has a line for each. Jobs that are held, or wait for others or for their begin time, are not shown.",
			"Factors without a weight have no column, unless --long asks for all. The figures are those of now; gqueue shows the priority of the last scheduling pass.",
			"The fields by their letters for -o and --sort: " + strings.Join(prioTable.Legend(), ", ") + ". Capital letters are factors times their weights, small ones the factors, from 0 to 1.",
		},
		Options: prioOptions(), Run: runPrio,
		Examples: []option.Example{
			{Text: "Why my job is where it is in the queue", Command: "gprio -l -j 1234"},
			{Text: "The first ten jobs", Command: "gprio -S -Y | head -11"},
			{Text: "The weights", Command: "gprio -w"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "the list was printed, even if it is empty"}, {Status: "1", Help: "a bad option, or no controller answers"}},
		SeeAlso:    []string{"gshare", "gqueue", "gcontrol"},
	}
}

func prioOptions() []option.Option {
	return append([]option.Option{
		{Long: "format", Short: 'o', Argument: "format", Environment: []string{"GPRIO_FORMAT", "SPRIO_FORMAT"}, Help: "the columns, as in \"%.15i %9r %.10Y\""},
		{Long: "jobs", Short: 'j', Argument: "job[,...]", OptionalArgument: true, Help: "only these jobs"},
		show.JSONOption(),
		show.YAMLOption(),
		{Long: "long", Short: 'l', Help: "more columns: the user, all factors and the nice value"},
		{Long: "noheader", Short: 'h', Help: "no header line"},
		{Long: "norm", Short: 'n', Help: "the factors themselves, from 0 to 1, not times their weights"},
		{Long: "partition", Short: 'p', Argument: "partition[,...]", Help: "only in these partitions"},
		{Long: "sort", Short: 'S', Argument: "fields", Default: "i", Help: "the order: letters of -o, each with a - before it for falling"},
		{Long: "user", Short: 'u', Argument: "user[,...]", Aliases: []string{"users"}, Help: "only jobs of these users, by name or number"},
		{Long: "weights", Short: 'w', Help: "the weights of the factors, and no jobs"},
		{Long: "verbose", Short: 'v', Help: "accepted and without effect"},
		client.ClusterOption("SLURM_CLUSTERS"),
	}, client.FederationOptions("federation", "local", "sibling")...)
}
