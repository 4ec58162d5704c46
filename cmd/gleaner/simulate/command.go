// Package simulate is "gleaner simulate": a recorded workload replayed under a policy, in
// virtual time.
//
// Contract: it asks no controller. It reads the files that it is given and writes those
// that it is told to, and what it finds is decided by package sched, as in the controller.
package simulate

import (
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/replay"
	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// Command is the table of gleaner simulate.
func Command() *option.Command {
	return &option.Command{
		Name: "simulate", Summary: "replay a recorded workload under a scheduling policy", Usage: "--trace FILE [--processors N | --cluster FILE] [options]",
		Description: []string{
			"gleaner simulate reads a trace of jobs, lets the scheduler of the controller plan them in virtual time, and says how long they would have waited. Each job runs as long as in the trace, and is planned by its time limit.",
			"The trace is in the Standard Workload Format of the Parallel Workloads Archive, or CSV whose first line names columns: job_id, submit and run, and if there are such est (the time limit), procs, user, account and time_min (the least time limit with which the job may start, and then ends when that is over). Times are seconds. Either may be packed with gzip. It may also be a snapshot of a cluster (gcontrol snapshot save): its nodes, the runs that the controllers remember, what runs and what waits, under the policy that was in force.",
			"The policies are " + strings.Join(policyNames(), ", ") + ", or a cluster.toml, of which [scheduler] and of [priority] the weights of age and job size count. fcfs: nothing starts before a job that waits. easy: a start is planned for the first job that waits, and others start where they do not delay it. easy-sjbf: these start in the order of their time limits. easy++: plans go by what the last two jobs of the user ran on average. easy-learned: they go by what is learned from the jobs that ended. easy-exact: they go by how long jobs will run, which nobody knows. easy-checkpoint: as easy, and jobs are saved and resumed to fill holes that are shorter than their time limits. conservative: no job delays one that came before it.",
			"A [[node]] with owner = \"ACCOUNT\" belongs to that account of the trace, whose jobs go first there and may have guests leave, as decided by the scheduler. --lending says what becomes of guests. isolated: there are none, each account has only its own nodes. kill: they are killed and start over. park: they are parked, and continue where they are when the nodes are free again; where the owner took the node back (--departures) they are saved after a while, and go on elsewhere. pack: they are saved and go on elsewhere in any case. Waiting is all time between submission and end in which the job did not run, or ran in vain.",
			"The last line has the mean wait, the mean bounded slowdown (times less than ten seconds count as ten) and the part of the processors that ran jobs.",
		},
		Options: []option.Option{
			{Long: "trace", Short: 't', Argument: "file", Help: "the trace"},
			{Long: "processors", Short: 'n', Argument: "number", Help: "a cluster of so many processors, of which a job may have any"},
			{Long: "cluster", Argument: "file", Help: "a cluster of nodes: a file with a [[node]] for each kind: name (a host list), cpus, and gpus if the processors of the trace are GPUs; owner if it has one"},
			{Long: "policy", Short: 'p', Argument: "policy", Default: "easy", Help: "the policy; of a snapshot, if none is named, its own"},
			{Long: "compare", Argument: "policy", Help: "another policy: who waits longer under it, and who shorter"},
			{Long: "lending", Argument: "ways", Default: "park", Help: "for nodes with owners: what becomes of the guests of an owner, or several ways side by side (isolated,kill,park,pack)"},
			{Long: "lending-times", Argument: "times", Help: "what that takes, in seconds: " + replay.DefaultLendingTimes},
			{Long: "departures", Argument: "file", Help: "a record of nodes that come and go (lines of milliseconds,add or remove,node): at each departure the owner of a node takes it back"},
			{Long: "round-limits", Help: "the time limit of each job is the next of 10 minutes, 1, 4, 12 hours, 1, 2, 4, 7, 14, 30, 60 days: for a trace that has no time limits"},
			{Long: "from", Argument: "time", Help: "only the jobs that were submitted from this time of the trace on (days-hours, hours:minutes:seconds)"},
			{Long: "until", Argument: "time", Help: "and before this one"},
			{Long: "csv", Argument: "file", Help: "write when each job started: job_id,submit,start,end,processors"},
			{Long: "svg", Argument: "file", Help: "draw how many processors are in use and how many are waited for, all policies in one picture"},
			{Long: "json", Help: "print JSON"},
		},
		Run: runSimulate,
		Examples: []option.Example{
			{Text: "A trace on 100 processors, with and without backfill", Command: "gleaner simulate --trace KTH-SP2.swf.gz --processors 100 --policy easy --compare fcfs"},
			{Text: "What a policy would have done to the last weeks", Command: "gleaner simulate --trace cluster.snapshot --compare ./cluster.toml --svg weeks.svg"},
			{Text: "What owners and guests wait: alone, and if guests are killed or parked", Command: "gleaner simulate -t jobs.csv --cluster labs.toml --lending=isolated,kill,park"},
			{Text: "What the cluster's own policy would have done", Command: "gleaner simulate -t jobs.csv -n 64 -p cluster.toml --svg jobs.svg"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "the trace was replayed"},
			{Status: "1", Help: "a bad option, or a file that cannot be read; nothing was replayed"},
		},
		SeeAlso: []string{"gqueue", "gcontrol"},
	}
}

func policyNames() []string {
	names := make([]string, len(sim.Policies))
	for i := range sim.Policies {
		names[i] = sim.Policies[i].Name
	}
	return names
}
