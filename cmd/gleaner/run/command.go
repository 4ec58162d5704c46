package run

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/allocation"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Long names of grun's options that gsubmit does not have.
const (
	optKillOnBadExit = "kill-on-bad-exit"
	optLabel         = "label"
	optUnbuffered    = "unbuffered"
	optOvercommit    = "overcommit"
	optJobID         = "jobid"
	optPty           = "pty"
	optMPI           = "mpi"
	optCPUBind       = "cpu-bind"
	optExact         = "exact"
	optMultiProg     = "multi-prog"
	optBcast         = "bcast"
	optOverlap       = "overlap"
)

const (
	ofTheJob     = "it belongs to the whole job: give it to gsubmit"
	gpusOfTheJob = "--gpus-per-task gives each task its own of the step's GPUs, and --gpu-bind says which"
)

// runVariables are the environment variables of an option: ours, which wins,
// and srun's.
func runVariables(suffix string) []string { return []string{"GRUN_" + suffix, "SLURM_" + suffix} }

// Command is the table of grun.
func Command() *option.Command {
	return &option.Command{
		Name:    "run",
		Alias:   "srun",
		Summary: "run a command as parallel tasks inside a job",
		Description: []string{
			"grun starts a command on the nodes of the job it is called in; outside of any job it makes one of what it asks for, waits until that runs, and ends it afterwards. It starts as many tasks as the job asked for with --ntasks, or one on each node. It passes on standard input to all tasks, what they write to its own standard output and error, and signals; it ends when all tasks have ended, with the highest of their exit statuses.",
			"It works in a batch script and in whatever the script starts, on any node of the job. Steps do not share what the job has: a step has all CPUs of its nodes that no other has, or with --exact, --exclusive or --cpus-per-task only those that its tasks need; the GPUs that it asks for, or all; and a part of the memory that goes with its CPUs, or what --mem says. A step waits until this is free, the first one first. One with --overlap waits for nobody and is not waited for; nor are the batch script and sessions. A step started from within another may have what that one has.",
			"A job of its own lives as long as its client: when that has been lost for two minutes (--inactive-limit), the job ends, whatever has become of grun and its host. What the tasks read and write goes over the controllers, so that files are better than pipes for much of it.",
			"With --jobid it works from anywhere: the command is one task in a job of yours that runs, on the node of its batch script. With --pty the task has a terminal. Such a step is a session: it continues when grun is lost or left (control-], typed three times within a second), and moves with its job; gattach comes back to it. The end of grun's input is that of the task's, also at a terminal. SIGTERM ends the step, and so does SIGHUP unless grun is typed into at a terminal, which is left then; what heeds neither is killed after 30 seconds.",
			"File names for --output, --error and --input may hold %j, %J, %s, %t, %N, %n, %u, %x, %A, %a as for gsubmit; they are opened by grun, where it runs.",
		},
		Usage: "[options] command [arguments...]",
		Operands: []option.Variable{
			{Name: "command", Help: "a program, looked up in PATH on each node, and its arguments"},
		},
		Options: runOptions(),
		Often: []string{
			jobspec.OptNtasks, jobspec.OptNodes, jobspec.OptNodelist, jobspec.OptOutput, optLabel, optJobID, optPty,
		},
		Examples: []option.Example{
			{Text: "one task for each that the job asked for", Command: "grun ./train"},
			{Text: "say which task wrote what", Command: "grun --label hostname"},
			{Text: "two servers side by side, on nodes of their own", Command: "grun -N1 -n1 -w n1 ./server & grun -N1 -n1 -w n2 ./server & wait"},
			{Text: "a shell in a job that runs, from the login host", Command: "grun --jobid=12 --overlap --pty bash"},
			{Text: "two tasks on a GPU each, in a job of their own", Command: "grun -n2 --gpus-per-task=1 -t 10 nvidia-smi -L"},
			{Text: "a shell on a node, for an hour", Command: "grun --gpus=1 -t 60 --pty bash"},
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

// runOptions are the options of steps, those of an allocation of its own, and those
// that are refused.
func runOptions() []option.Option {
	return slices.Concat(stepOptions(), allocationOptions(), runLater())
}

// stepOptions are those that say how the tasks run.
func stepOptions() []option.Option {
	return append([]option.Option{
		{Long: jobspec.OptNtasks, Short: 'n', Argument: "count", Help: "number of tasks", Default: "$SLURM_NTASKS, else one on each node"},
		{Long: jobspec.OptNodes, Short: 'N', Argument: "min[-max]", Help: "number of nodes", Default: "all nodes of the job"},
		{Long: jobspec.OptNtasksPerNode, Aliases: []string{"tasks-per-node"}, Argument: "count", Help: "tasks on each node at most"},
		{Long: jobspec.OptCPUsPerTask, Short: 'c', Argument: "count", Environment: []string{"GRUN_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK"}, Help: "CPUs for each task, and no more (--exact)", Default: "1"},
		{Long: jobspec.OptNodelist, Short: 'w', Argument: "nodes", Help: "nodes that must take part, as in n[1-3,7]"},
		{Long: jobspec.OptExclude, Short: 'x', Argument: "nodes", Help: "nodes that must not take part"},
		{Long: optOvercommit, Short: 'O', Environment: runVariables("OVERCOMMIT"), Help: "allow more tasks than there are CPUs"},
		{Long: optLabel, Short: 'l', Environment: runVariables("LABELIO"), Help: "write the number of the task before each line"},
		{Long: optUnbuffered, Short: 'u', Environment: runVariables("UNBUFFEREDIO"), Help: "pass on output as it comes, not by whole lines"},
		{Long: jobspec.OptInput, Short: 'i', Argument: "all|none|task|file", Environment: runVariables("STDINMODE"), Help: "standard input of the tasks: grun's own for all or for one of them, none, or a file", Default: "all"},
		{Long: jobspec.OptOutput, Short: 'o', Argument: "all|none|task|file", Environment: runVariables("STDOUTMODE"), Help: "where standard output goes: to grun's own from all or from one of them, nowhere, or to a file", Default: "all"},
		{Long: jobspec.OptError, Short: 'e', Argument: "all|none|task|file", Environment: runVariables("STDERRMODE"), Help: "likewise for standard error", Default: "as --output if that is a file, else all"},
		{Long: jobspec.OptOpenMode, Argument: "append|truncate", Environment: runVariables("OPEN_MODE"), Help: "what happens to an output file that exists", Default: "truncate"},
		{Long: optKillOnBadExit, Short: 'K', Argument: "0|1", OptionalArgument: true, Environment: runVariables("KILL_BAD_EXIT"), Help: "end all tasks as soon as one ends with a status other than 0"},
		{Long: jobspec.OptWait, Short: 'W', Argument: "seconds", Environment: runVariables("WAIT"), Help: "end the other tasks so long after the first has ended; 0: let them run", Default: "0"},
		{Long: optMultiProg, Environment: runVariables("MULTI"), Help: "run several programs: the command is a file with lines such as 4-6 echo task:%t, which name tasks and what they run"},
		{Long: optBcast, Argument: "path", OptionalArgument: true, Environment: runVariables("BCAST"), Help: "copy the program to this path on every node of the step first, and run it there", Default: "slurm_bcast_JOB.STEP in the current directory"},
		{Long: jobspec.OptChdir, Short: 'D', Argument: "directory", Help: "directory the tasks start in", Default: "the current one"},
		{Long: jobspec.OptExport, Argument: "ALL|NONE|[ALL,]name[=value],...", Help: "the environment variables to hand to the tasks", Default: "ALL"},
		{Long: jobspec.OptQuiet, Short: 'Q', Help: "print nothing but errors"},
		{Long: jobspec.OptVerbose, Short: 'v', Help: "say where the tasks are"},
		{Long: optJobID, Argument: "job", Help: "run the command in this job, from anywhere, as a session"},
		{Long: optPty, Help: "run the command in a terminal of its own, as a session; without a command, a shell"},
		{Long: jobspec.OptExclusive, Argument: "user|mcs", OptionalArgument: true, Environment: runVariables("EXCLUSIVE"), Help: "outside of a job whole nodes for it; inside as --exact"},
		{Long: optExact, Environment: runVariables("EXACT"), Help: "take only the CPUs that the tasks need, not all that are free on their nodes"},
		{Long: optOverlap, Environment: runVariables("OVERLAP"), Help: "share CPUs, memory and GPUs with other steps: wait for none of them, and let none wait"},
		{Long: jobspec.OptDistribution, Short: 'm', Argument: "block|cyclic|plane=size|arbitrary", Environment: runVariables("DISTRIBUTION"), Help: "which tasks run on which node: by the node, in turn, so many at a time in turn, or as the file SLURM_HOSTFILE lists them", Default: "block"},
		{Long: "disable-status", Short: 'X', Help: "accepted and without effect: an interrupt always goes to the tasks"},
		{Long: jobspec.OptGPUsPerTask, Argument: "[model:]count", Environment: runVariables("GPUS_PER_TASK"), Help: "GPUs of its own for each task, in CUDA_VISIBLE_DEVICES", Default: "as the job asked for, else all of the step's"},
		{Long: jobspec.OptGPUBind, Argument: "none|closest|per_task:count|single:tasks|map_gpu:list|mask_gpu:list", Environment: runVariables("GPU_BIND"), Help: "which of its step's GPUs each task sees, by CUDA_VISIBLE_DEVICES: all, so many each, one for so many tasks, or those listed for the tasks of a node in turn; closest changes nothing, because it is not known here which GPUs are close to which CPUs"},
		{Long: optMPI, Argument: "pmi2|pmix|none|list", Environment: runVariables("MPI_TYPE"), Default: "pmix for a program that is linked with Open MPI, else pmi2", Help: "how the tasks of an MPI program find each other: pmi2 serves PMI-1 and PMI-2, which MPICH and its relatives speak; pmix serves PMIx, which Open MPI speaks, also as pmix_v4; none serves nothing; list prints these"},
		{Long: optCPUBind, Argument: "[verbose,]none|threads|cores|sockets|rank|map_cpu:list|mask_cpu:list", Environment: runVariables("CPU_BIND"), Help: "which of its step's CPUs a task may run on: all, its own, those of its cores or sockets, or those listed for the tasks of a node in turn", Default: "none"},
	}, allocation.Options()...)
}

// runLater are the options of srun that are refused by name, or change nothing here.
func runLater() []option.Option {
	later := func(short byte, long, argument, remedy string) option.Option {
		return option.Option{Long: long, Short: short, Argument: argument, Later: remedy}
	}
	harmless := func(short byte, long, argument, why string) option.Option {
		return option.Option{Long: long, Short: short, Argument: argument, Ignored: why}
	}
	return []option.Option{
		later(0, "accel-bind", "options", gpusOfTheJob),
		harmless(0, "bcast-exclude", "paths", "--bcast copies the program and no libraries"),
		{Long: "compress", Argument: "type", OptionalArgument: true, Ignored: "what --bcast copies is not compressed"},
		later(0, "epilog", "program", "run it after grun"),
		later(0, "het-group", "numbers", option.LeaveOut),
		later('H', jobspec.OptHold, "", ofTheJob),
		harmless(0, "msg-timeout", "seconds", "nodes have the time that they need to answer"),
		later('Z', "no-allocate", "", option.LeaveOut),
		later('E', "preserve-env", "", option.LeaveOut),
		later(0, "prolog", "program", "run it before grun"),
		later(0, "quit-on-interrupt", "", option.LeaveOut+"; two interrupts within a second kill the tasks"),
		later('r', "relative", "n", "name the nodes with --nodelist"),
		{Long: "send-libs", Argument: "yes|no", OptionalArgument: true, Later: option.LeaveOut},
		harmless(0, "slurmd-debug", "level", "--verbose says where the tasks are"),
		later(0, "task-epilog", "program", "let the tasks start a script that runs it"),
		later(0, "task-prolog", "program", "let the tasks start a script that runs it"),
		later(0, "test-only", "", "gsubmit --test-only says when a job would start"),
		harmless('T', "threads", "count", "tasks start on all nodes at once"),
		{Long: "x11", Argument: "all|first|last", OptionalArgument: true, Later: option.LeaveOut},
	}
}
