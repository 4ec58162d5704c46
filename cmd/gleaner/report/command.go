package report

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// Command is the table of greport.
func Command() *option.Command {
	return &option.Command{
		Name: "report", Alias: "sreport", Summary: "report what accounts and users have used", Usage: "[options] report [start=time] [end=time] [accounts=…] [users=…]",
		Operands: []option.Variable{
			{Name: "cluster Utilization", Help: "what the nodes had, and how much of it ran jobs, was down or idle"},
			{Name: "cluster AccountUtilizationByUser", Help: "each account, and its users"},
			{Name: "cluster UserUtilizationByAccount", Help: "each user, by account"},
			{Name: "user TopUsage", Help: "the users that have used the most; TopCount=10"},
			{Name: "cluster Lending", Help: "what accounts had on nodes of others: lent by whom, borrowed by whom"},
			{Name: "start=time end=time", Help: "the time that is reported; without both it is yesterday"},
			{Name: "accounts=name[,...] users=name[,...]", Help: "only these"},
		},
		Description: []string{
			"greport adds up the runs of jobs between two times, those that are not over too, from the history that the controllers keep. What of a run lies outside is not counted, and neither is the time for which it was suspended.",
			"Utilization takes the nodes as they are now, as if they had been there all the time. What a drained node still runs is allocated, the rest of it down. Time to come counts for nothing.",
			"Words may be in any case, and shortened as long as they are clear. What users may not see of others (private_data) is not in their sums.",
		},
		Options: append([]option.Option{
			show.JSONOption(),
			show.YAMLOption(),
			{Long: "noheader", Short: 'n', Help: "no header lines"},
			{Long: "parsable", Short: 'p', Help: "columns separated by |, with one at the end"},
			{Long: "parsable2", Short: 'P', Help: "columns separated by |, without one at the end"},
			{Long: "time", Short: 't', Argument: "unit", Default: "minutes", Help: "seconds, minutes, hours, percent, or a number and its percentage: secper, minper, hourper"},
			{Long: "tres", Short: 'T', Argument: "name[,...]", Default: "cpu", Help: "what is counted: cpu, mem, node, gres/gpu, gres/gpu:MODEL, or ALL"},
			{Long: "all_clusters", Short: 'a', Help: "accepted and without effect: this cluster is the only one"},
			client.ClusterOption(),
			{Long: "quiet", Short: 'Q', Help: "accepted and without effect"},
			{Long: "verbose", Short: 'v', Help: "accepted and without effect"},
		}, client.FederationOptions("federation", "local")...),
		Run: runReport,
		Examples: []option.Example{
			{Text: "Who used how many CPU hours since March", Command: "greport -t hours cluster AccountUtilizationByUser start=2026-03-01 end=now"},
			{Text: "The ten users with the most GPU time of the last week", Command: "greport -t hours -T gres/gpu user TopUsage start=now-7days end=now"},
			{Text: "GPU time by model, for a script", Command: "greport -P -n -T ALL cluster UserUtilizationByAccount start=now-1day end=now"},
			{Text: "How well the cluster was used last month", Command: "greport -t percent -T cpu,gres/gpu cluster Utilization start=now-30days end=now"},
			{Text: "Which lab has lent to which", Command: "greport cluster Lending start=now-30days end=now"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "the report was printed, even if it is empty"}, {Status: "1", Help: "a bad option or report, or no controller answers"}},
		SeeAlso:    []string{"gacct", "gshare", "glend"},
	}
}
