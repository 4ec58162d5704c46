package diag

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// Command is the table of gdiag.
func Command() *option.Command {
	return &option.Command{
		Name: "diag", Alias: "sdiag", Summary: "show what the controller does: requests, the scheduler's passes, jobs", Usage: "[options]",
		Description: []string{
			"gdiag prints what the controller that leads has done since it started, or since somebody reset the counts: they are not reset at midnight. Another controller that comes to lead begins at zero. For figures over time use the metrics (docs/metrics.md).",
			"One pass of the scheduler starts jobs in the order of their priorities and fills the holes before those that wait, so the figures of cycles stand in both blocks. A backfilled job is one that started before a job of higher priority, in the same partition, that waits for resources.",
			"Agent queue size is the number of messages that wait to be sent to nodes, Agent count the number of nodes that are connected, DBD Agent queue size that of runs that wait for the databases of history.",
		},
		Options: []option.Option{
			{Long: "all", Short: 'a', Help: "print all; as without options"},
			{Long: "reset", Short: 'r', Help: "begin to count again; for operators and administrators"},
			{Long: "sort-by-id", Short: 'i', Help: "requests by their numbers, and by the numbers of users"},
			{Long: "sort-by-time", Short: 't', Help: "requests by the time that they took together"},
			{Long: "sort-by-time2", Short: 'T', Help: "requests by the time that one took"},
			show.JSONOption(),
			show.YAMLOption(),
			client.ClusterOption(),
			{Long: "verbose", Short: 'v', Help: "accepted and without effect"},
		},
		Run: runDiag,
		Examples: []option.Example{
			{Text: "How is the controller?", Command: "gdiag"},
			{Text: "The scheduler alone, for a script", Command: "gdiag --json | jq .statistics.schedule_cycle_mean"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "it was printed, or reset"}, {Status: "1", Help: "a bad option, a reset that is refused, or no controller answers"}},
		SeeAlso:    []string{"gcontrol", "gqueue", "ginfo"},
	}
}
