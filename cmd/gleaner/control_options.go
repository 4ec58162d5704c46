package main

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

func controlCommand() *option.Command {
	return &option.Command{
		Name: "control", Alias: "scontrol", Summary: "look closely, and change things", Usage: "[options] command [arguments]",
		Description: []string{
			"gcontrol shows everything about jobs, nodes, partitions and the configuration, and changes what the person who asks may change: users their own jobs, administrators all of it.",
			"Commands and the names of things may be shortened as far as they are unambiguous, and are read in any case.",
			"The policy of the cluster (partitions, administrators, limits) is one file, cluster.toml. apply shows what would change, asks, and puts it in force at once; no daemon is restarted. What the file leaves out has its default value.",
		},
		Operands: []option.Variable{
			{Name: "show job [ID]", Help: "jobs; with --details what they hold on each node"},
			{Name: "show node [LIST]", Help: "nodes; with --details each GPU"},
			{Name: "show partition [NAME]", Help: "partitions"},
			{Name: "show config", Help: "the policy in force and the controller's settings"},
			{Name: "show hostnames [LIST]", Help: "the names in a host list, one a line; without one those of this job ($SLURM_JOB_NODELIST)"},
			{Name: "show hostlist NAMES", Help: "the host list of names joined by commas; hostlistsorted sorts them first"},
			{Name: "hold IDS", Help: "keep jobs from starting; IDS are 12,13_4,15_[1-5], or jobname=NAME"},
			{Name: "release IDS", Help: "let held jobs start"},
			{Name: "requeue IDS", Help: "end the present run and wait again"},
			{Name: "update NodeName=LIST State=STATE [Reason=TEXT]", Help: "DRAIN: finish what runs, start nothing new; DOWN: the same, and shown as down; FENCED: as DOWN, of a node that does not respond and has been switched off: its jobs are over or requeued; RESUME: take jobs again. Also update node LIST state=drain reason=TEXT"},
			{Name: "apply -f FILE [--dry-run] [--yes]", Help: "put a policy in force"},
			{Name: "ping", Help: "which controllers answer, each asked by itself; with --details also what each knows: leader, term, how far behind, last contact"},
			{Name: "status", Help: "how the cluster is, on one screen: leader and controllers, the nodes' leases, jobs, and what to look at with what to do. Of many nodes those in the worst case; with --all every one. Where no controller leads, what those asked know"},
			{Name: "version", Help: "the version of this program"},
		},
		Options: []option.Option{
			{Long: "all", Short: 'a', Help: "status: every node, not the worst cases alone. Partitions are always all shown"},
			{Long: "details", Short: 'd', Help: "more of each thing shown"},
			{Long: "dry-run", Help: "apply: show what would change, and change nothing"},
			{Long: "file", Short: 'f', Argument: "file", Help: "apply: the policy to put in force; - is standard input"},
			{Long: "hide", Help: "leave out hidden partitions; there are none"},
			jsonOption(),
			{Long: "oneliner", Short: 'o', Help: "each thing on one line"},
			{Long: "quiet", Short: 'Q', Help: "no word about what went well"},
			{Long: "yes", Short: 'y', Help: "apply: do not ask"},
			{Long: "clusters", Short: 'M', Argument: "clusters", Later: "name another controller with --controller"},
			{Long: "federation", Later: "this cluster is the only one; leave the option out"},
			{Long: "future", Short: 'F', Later: "nodes appear when they register"},
			{Long: "local", Later: "this cluster is the only one; leave the option out"},
			{Long: "sibling", Later: "this cluster is the only one; leave the option out"},
			{Long: "uid", Short: 'u', Argument: "uid", Later: "run gcontrol as that user"},
			{Long: "verbose", Short: 'v', Later: "leave the option out"},
			{Long: "yaml", Argument: "version", OptionalArgument: true, Later: "use --json"},
		},
		Run: runControl,
		Examples: []option.Example{
			{Text: "Take a node out of service for new jobs, and back", Command: "gcontrol update NodeName=n7 State=DRAIN Reason=\"fan is failing\"\ngcontrol update NodeName=n7 State=RESUME"},
			{Text: "See what a new policy would change", Command: "gcontrol apply -f cluster.toml --dry-run"},
			{Text: "The first node of this job", Command: "gcontrol show hostnames | head -1"},
			{Text: "Which GPUs a job holds", Command: "gcontrol show job 12 --details"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "done"}, {Status: "1", Help: "refused, not found, no controller answers, or apply was not confirmed"}},
		Variables:  []option.Variable{{Name: "SLURM_JOB_NODELIST", Help: "the host list that show hostnames expands if none is given"}},
		SeeAlso:    []string{"gqueue", "ginfo", "gcancel"},
	}
}
