package main

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

// Long names of grun's options beside those it shares with gsubmit.
const (
	optKillOnBadExit = "kill-on-bad-exit"
	optLabel         = "label"
	optUnbuffered    = "unbuffered"
	optOvercommit    = "overcommit"
	optJobID         = "jobid"
	optPty           = "pty"
	optMPI           = "mpi"
	optCPUBind       = "cpu-bind"
)

const (
	ofTheJob     = "it belongs to the whole job: give it to gsubmit"
	gpusOfTheJob = "tasks see the GPUs that the job has on their node; let each pick its own by SLURM_LOCALID, as with CUDA_VISIBLE_DEVICES"
)

// runVariables are the environment variables of an option: ours, which wins,
// and srun's.
func runVariables(suffix string) []string { return []string{"GRUN_" + suffix, "SLURM_" + suffix} }

func runCommand() *option.Command {
	return &option.Command{
		Name:    "run",
		Alias:   "srun",
		Summary: "run a command as parallel tasks inside a job",
		Description: []string{
			"grun starts a command on the nodes of the job it is called in: as many tasks as the job asked for with --ntasks, or one on each node. It passes on standard input to all tasks, what they write to its own standard output and error, and signals; it ends when all tasks have ended, with the highest of their exit statuses.",
			"It works in a batch script and in whatever the script starts, on any node of the job. Steps share what the job has: several may run at once, and a step never waits for another.",
			"With --jobid it works from anywhere: the command is one task in a job of yours that runs, on the node of its batch script. With --pty the task has a terminal. Such a step is a session: it goes on when grun is lost or left (control-], typed three times within a second), and moves with its job; gattach comes back to it.",
			"File names for --output, --error and --input may hold %j, %J, %s, %t, %N, %n, %u, %x, %A, %a as for gsubmit; they are opened by grun, where it runs.",
		},
		Usage: "[options] command [arguments...]",
		Operands: []option.Variable{
			{Name: "command", Help: "a program, looked up in PATH on each node, and its arguments"},
		},
		Options: append(runOptions(), runLater()...),
		Examples: []option.Example{
			{Text: "one task for each that the job asked for", Command: "grun ./train"},
			{Text: "say which task wrote what", Command: "grun --label hostname"},
			{Text: "two servers side by side, on nodes of their own", Command: "grun -N1 -n1 -w n1 ./server & grun -N1 -n1 -w n2 ./server & wait"},
			{Text: "a shell in a job that runs, from the login host", Command: "grun --jobid=12 --overlap --pty bash"},
			{Text: "a launcher on each node", Command: "grun -N$SLURM_NNODES -n$SLURM_NNODES torchrun --nnodes=$SLURM_NNODES train.py"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "every task ended with 0"},
			{Status: "1", Help: "the step could not be started, or a node was lost"},
			{Status: "2", Help: "the program does not exist"},
			{Status: "255", Help: "an unknown option"},
			{Status: "any", Help: "the highest status of a task, where one that a signal ended counts 128 and the signal's number"},
		},
		Variables: []option.Variable{
			{Name: "GRUN_*, SLURM_*", Help: "give options, as GRUN_LABELIO or SLURM_LABELIO gives --label"},
			{Name: "SLURM_NTASKS", Help: "number of tasks where --ntasks is not given; set in jobs that asked for a number"},
			{Name: "SRUN_CPUS_PER_TASK", Help: "as --cpus-per-task"},
		},
		SeeAlso:       []string{"gsubmit", "gattach", "gqueue", "gcancel"},
		StopAtOperand: true,
		UsageStatus:   255,
		Run:           runStep,
	}
}

func runOptions() []option.Option {
	return []option.Option{
		{Long: optNtasks, Short: 'n', Argument: "count", Help: "number of tasks", Default: "$SLURM_NTASKS, else one on each node"},
		{Long: optNodes, Short: 'N', Argument: "min[-max]", Help: "number of nodes", Default: "all nodes of the job"},
		{Long: optNtasksPerNode, Argument: "count", Help: "tasks on each node at most"},
		{Long: optCPUsPerTask, Short: 'c', Argument: "count", Environment: []string{"GRUN_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK"}, Help: "CPUs that are counted for each task when they are laid out", Default: "1"},
		{Long: optNodelist, Short: 'w', Argument: "nodes", Help: "nodes that must take part, as in n[1-3,7]"},
		{Long: optExclude, Short: 'x', Argument: "nodes", Help: "nodes that must not take part"},
		{Long: optOvercommit, Short: 'O', Environment: runVariables("OVERCOMMIT"), Help: "allow more tasks than there are CPUs"},
		{Long: optLabel, Short: 'l', Environment: runVariables("LABELIO"), Help: "write the number of the task before each line"},
		{Long: optUnbuffered, Short: 'u', Environment: runVariables("UNBUFFEREDIO"), Help: "pass on output as it comes, not by whole lines"},
		{Long: optInput, Short: 'i', Argument: "all|none|task|file", Environment: runVariables("STDINMODE"), Help: "standard input of the tasks: grun's own for all or for one of them, none, or a file", Default: "all"},
		{Long: optOutput, Short: 'o', Argument: "all|none|task|file", Environment: runVariables("STDOUTMODE"), Help: "where standard output goes: to grun's own from all or from one of them, nowhere, or to a file", Default: "all"},
		{Long: optError, Short: 'e', Argument: "all|none|task|file", Environment: runVariables("STDERRMODE"), Help: "likewise for standard error", Default: "as --output if that is a file, else all"},
		{Long: optOpenMode, Argument: "append|truncate", Environment: runVariables("OPEN_MODE"), Help: "what happens to an output file that exists", Default: "truncate"},
		{Long: optKillOnBadExit, Short: 'K', Argument: "0|1", OptionalArgument: true, Environment: runVariables("KILL_BAD_EXIT"), Help: "end all tasks as soon as one ends with a status other than 0"},
		{Long: optChdir, Short: 'D', Argument: "directory", Help: "directory the tasks start in", Default: "the current one"},
		{Long: optExport, Argument: "ALL|NONE|[ALL,]name[=value],...", Help: "the environment variables to hand to the tasks", Default: "ALL"},
		{Long: optQuiet, Short: 'Q', Help: "print nothing but errors"},
		{Long: optVerbose, Short: 'v', Help: "say where the tasks are"},
		{Long: optJobID, Argument: "job", Help: "run the command in this job, from anywhere, as a session"},
		{Long: optPty, Help: "run the command in a terminal of its own, as a session; without a command, a shell"},
		{Long: optExclusive, Argument: "user|mcs", OptionalArgument: true, Help: "accepted and without effect: steps share what the job has"},
		{Long: "exact", Help: "accepted and without effect, as --exclusive"},
		{Long: "overlap", Help: "accepted and without effect, as --exclusive"},
		{Long: "immediate", Short: 'I', Argument: "seconds", OptionalArgument: true, Help: "accepted and without effect: a step never waits"},
		{Long: "disable-status", Short: 'X', Help: "accepted and without effect: an interrupt always goes to the tasks"},
		{Long: optMPI, Argument: "none", Help: "none is accepted; MPI programs start through their own launchers"},
		{Long: optCPUBind, Argument: "none", Help: "none is accepted; tasks share the CPUs that the job has on their node"},
	}
}

// runLater are the options of srun that are refused by name.
func runLater() []option.Option {
	later := func(short byte, long, argument, remedy string) option.Option {
		return option.Option{Long: long, Short: short, Argument: argument, Later: remedy}
	}
	return []option.Option{
		later(0, "accel-bind", "options", gpusOfTheJob),
		later('A', optAccount, "account", ofTheJob),
		later(0, "acctg-freq", "interval", leaveOut),
		later(0, "bb", "specification", ofTheJob),
		later(0, "bbf", "file", ofTheJob),
		{Long: "bcast", Argument: "path", OptionalArgument: true, Later: "copy the program to a shared directory"},
		later(0, "bcast-exclude", "paths", "copy the program to a shared directory"),
		later('b', "begin", "time", ofTheJob),
		later(0, "cluster-constraint", "features", ofTheJob),
		later('M', "clusters", "names", leaveOut),
		later(0, optComment, "text", ofTheJob),
		{Long: "compress", Argument: "type", OptionalArgument: true, Later: leaveOut},
		later('C', optConstraint, "features", ofTheJob),
		later(0, "container", "bundle", "start the container as the command"),
		later(0, "contiguous", "", ofTheJob),
		later('S', "core-spec", "count", ofTheJob),
		later(0, "cores-per-socket", "count", ofTheJob),
		later(0, "cpu-freq", "range", leaveOut),
		later(0, "cpus-per-gpu", "count", "use --cpus-per-task"),
		later(0, "deadline", "time", ofTheJob),
		later(0, "delay-boot", "minutes", ofTheJob),
		later('d', "dependency", "list", ofTheJob),
		later('m', "distribution", "method", leaveOut+"; tasks are laid out in blocks"),
		later(0, "epilog", "program", "run it after grun"),
		later('B', "extra-node-info", "counts", ofTheJob),
		later(0, "gid", "group", ofTheJob),
		later(0, "gpu-bind", "type", gpusOfTheJob),
		later(0, "gpu-freq", "frequencies", leaveOut),
		later('G', optGPUs, "[model:]count", gpusOfTheJob),
		later(0, optGPUsPerNode, "[model:]count", gpusOfTheJob),
		later(0, "gpus-per-socket", "[model:]count", gpusOfTheJob),
		later(0, "gpus-per-task", "[model:]count", gpusOfTheJob),
		later(0, optGres, "list", gpusOfTheJob),
		later(0, "gres-flags", "flags", leaveOut),
		later(0, "het-group", "numbers", leaveOut),
		later(0, "hint", "type", bindInstead),
		later('H', optHold, "", ofTheJob),
		later('J', optJobName, "name", leaveOut+"; steps are known by number"),
		later('L', "licenses", "list", ofTheJob),
		later(0, "mail-type", "types", ofTheJob),
		later(0, "mail-user", "user", ofTheJob),
		later(0, "mcs-label", "label", ofTheJob),
		later(0, optMem, "size", "limit tasks with ulimit -v; the memory of the job is for all its steps"),
		later(0, "mem-bind", "type", bindInstead),
		later(0, optMemPerCPU, "size", "limit tasks with ulimit -v; the memory of the job is for all its steps"),
		later(0, "mem-per-gpu", "size", "limit tasks with ulimit -v; the memory of the job is for all its steps"),
		later(0, "mincpus", "count", ofTheJob),
		later(0, "msg-timeout", "seconds", leaveOut),
		later(0, "multi-prog", "", "choose the program by SLURM_PROCID in a script"),
		later(0, optNetwork, "type", ofTheJob),
		{Long: optNice, Argument: "adjustment", OptionalArgument: true, Later: "start the command with nice(1)"},
		later('Z', "no-allocate", "", leaveOut),
		{Long: "no-kill", Short: 'k', Argument: "off", OptionalArgument: true, Later: leaveOut + "; a job ends when one of its nodes fails"},
		later('F', "nodefile", "file", "name the nodes with --nodelist"),
		later(0, "ntasks-per-core", "count", "use --ntasks-per-node"),
		later(0, "ntasks-per-gpu", "count", "use --ntasks-per-node"),
		later(0, "ntasks-per-socket", "count", "use --ntasks-per-node"),
		later('s', "oversubscribe", "", ofTheJob),
		later('p', optPartition, "partition", ofTheJob),
		later(0, "power", "flags", ofTheJob),
		later(0, "prefer", "features", ofTheJob),
		later('E', "preserve-env", "", leaveOut),
		later(0, "priority", "value", ofTheJob),
		later(0, "profile", "types", leaveOut),
		later(0, "prolog", "program", "run it before grun"),
		{Long: "propagate", Argument: "limits", OptionalArgument: true, Later: "set limits with ulimit in a script that the tasks start"},
		later('q', "qos", "qos", ofTheJob),
		later(0, "quit-on-interrupt", "", leaveOut+"; two interrupts within a second kill the tasks"),
		later(0, "reboot", "", ofTheJob),
		later('r', "relative", "n", "name the nodes with --nodelist"),
		later(0, "reservation", "names", ofTheJob),
		{Long: "resv-ports", Argument: "count", OptionalArgument: true, Later: leaveOut},
		{Long: "send-libs", Argument: "yes|no", OptionalArgument: true, Later: leaveOut},
		later(0, "signal", "signal[@seconds]", "use timeout(1) around the command"),
		later(0, "slurmd-debug", "level", leaveOut),
		later(0, "sockets-per-node", "count", ofTheJob),
		later(0, "spread-job", "", ofTheJob),
		later(0, "switches", "count[@time]", ofTheJob),
		later(0, "task-epilog", "program", "let the tasks start a script that runs it"),
		later(0, "task-prolog", "program", "let the tasks start a script that runs it"),
		later(0, "test-only", "", "ginfo shows which nodes and GPUs are free"),
		later(0, "thread-spec", "count", ofTheJob),
		later('T', "threads", "count", leaveOut),
		later(0, "threads-per-core", "count", ofTheJob),
		later('t', optTime, "time", "use timeout(1) around the command"),
		later(0, "time-min", "time", ofTheJob),
		later(0, "tmp", "size", ofTheJob),
		later(0, optUID, "user", ofTheJob),
		later(0, "use-min-nodes", "", "give one number of --nodes"),
		later('W', optWait, "seconds", "use --kill-on-bad-exit, or timeout(1) around the command"),
		later(0, optWCKey, "key", ofTheJob),
		{Long: "x11", Argument: "all|first|last", OptionalArgument: true, Later: leaveOut},
	}
}
