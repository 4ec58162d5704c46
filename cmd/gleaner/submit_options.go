package main

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Long names of gsubmit's options, which are also the keys of their values.
const (
	optAccount       = "account"
	optQOS           = "qos"
	optArray         = "array"
	optBegin         = "begin"
	optChdir         = "chdir"
	optComment       = "comment"
	optLicenses      = "licenses"
	optConstraint    = "constraint"
	optCPUsPerTask   = "cpus-per-task"
	optDeadline      = "deadline"
	optDependency    = "dependency"
	optError         = "error"
	optExclude       = "exclude"
	optExclusive     = "exclusive"
	optExport        = "export"
	optGPUs          = "gpus"
	optGPUsPerNode   = "gpus-per-node"
	optGres          = "gres"
	optHold          = "hold"
	optInput         = "input"
	optJobName       = "job-name"
	optKillOnInvalid = "kill-on-invalid-dep"
	optMem           = "mem"
	optMemPerCPU     = "mem-per-cpu"
	optNetwork       = "network"
	optNice          = "nice"
	optNodelist      = "nodelist"
	optNodes         = "nodes"
	optNoRequeue     = "no-requeue"
	optNtasks        = "ntasks"
	optNtasksPerNode = "ntasks-per-node"
	optOpenMode      = "open-mode"
	optOutput        = "output"
	optParsable      = "parsable"
	optPartition     = "partition"
	optPriority      = "priority"
	optQuiet         = "quiet"
	optRequeue       = "requeue"
	optTime          = "time"
	optUID           = "uid"
	optVerbose       = "verbose"
	optWait          = "wait"
	optWaitAllNodes  = "wait-all-nodes"
	optWCKey         = "wckey"
	optWrap          = "wrap"
)

// variables are the environment variables of an option: ours, which wins, and
// sbatch's.
func variables(suffix string) []string { return []string{"GSUB_" + suffix, "SBATCH_" + suffix} }

func submitCommand() *option.Command {
	return &option.Command{
		Name:    "submit",
		Alias:   "sbatch",
		Summary: "submit a batch script",
		Description: []string{
			"gsubmit hands a batch script to the controller and prints the number of the job. When it has printed one, the job is on the disks of a majority of the controllers. The script is read from a file, from standard input if no file is named, or made from --wrap; it is copied, so that it may be changed or deleted at once.",
			"Options may also stand in the script, on lines that begin with #GSUB or #SBATCH, before its first command. An option on the command line wins over one in the environment, which wins over one in the script.",
			"File names for --output, --error and --input may hold %j (job), %A and %a (array and task), %x (name), %u (user), %N (node), %n (number of the node), %t (task), %s (step), %J (job and step); a number pads with zeros: %4a. %% is a percent sign, and a backslash in the name keeps all of it as it is.",
		},
		Usage: "[options] [script [arguments...]]\n   or: gsubmit [options] --wrap=command",
		Operands: []option.Variable{
			{Name: "script", Help: "the batch script; standard input if none is named"},
			{Name: "arguments", Help: "handed to the script, options among them too"},
		},
		Options: slices.Concat(submitOptions(), placementOptions(), checkpointOptions(), submitLater()),
		Examples: []option.Example{
			{Text: "a job on one GPU of any model, for at most an hour", Command: "gsubmit --gpus=1 --time=1:00:00 train.sh"},
			{Text: "two nodes with four GPUs each, one task a GPU", Command: "gsubmit -N2 --gpus-per-node=4 --ntasks-per-node=4 train.sh"},
			{Text: "a hundred tasks, ten at a time, each with a file of its own", Command: "gsubmit --array=0-99%10 --output=%A_%a.out sweep.sh"},
			{Text: "one command, waiting for its end and its exit status", Command: "gsubmit --wait --wrap='nvidia-smi -L'"},
			{Text: "a script from standard input", Command: "gsubmit --job-name=hello < hello.sh"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "the job was accepted"},
			{Status: "1", Help: "it was not; standard error says why and what to do"},
			{Status: "255", Help: "an unknown option, or a time, size, number of nodes or mode that cannot be read"},
			{Status: "any", Help: "with --wait, the exit status of the script, the highest one of an array; 1 if a signal ended it"},
		},
		Variables: []option.Variable{
			{Name: "GSUB_*, SBATCH_*", Help: "give options, as GSUB_PARTITION or SBATCH_PARTITION gives --partition"},
			{Name: "SLURM_UMASK", Help: "the mask for the output files in octal, in place of the one in force"},
			{Name: "GLEANER_TLS_DIR", Help: "directory of ca.pem, cert.pem and key.pem for controllers over TCP"},
		},
		SeeAlso:       []string{"gqueue", "gcancel", "grun", "gcontrol"},
		StopAtOperand: true,
		UsageStatus:   255,
		Run:           submit,
	}
}

// submitOptions are the options that are carried out.
func submitOptions() []option.Option {
	return []option.Option{
		{Long: optJobName, Short: 'J', Argument: "name", InScript: true, Environment: variables("JOB_NAME"), Help: "name of the job", Default: "the script's file name"},
		{Long: optPartition, Short: 'p', Argument: "partition[,...]", InScript: true, Environment: variables("PARTITION"), Help: "where to run; of several, the first that can", Default: "the cluster's default partition"},
		{Long: optNodes, Short: 'N', Argument: "min[-max]", InScript: true, Environment: []string{"GSUB_NODES"}, Help: "number of nodes; of a range, as many as are free", Default: "as many as the tasks need"},
		{Long: optNtasks, Short: 'n', Argument: "count", InScript: true, Environment: []string{"GSUB_NTASKS"}, Help: "number of tasks that steps of the job will run"},
		{Long: optNtasksPerNode, Argument: "count", InScript: true, Help: "tasks on each node"},
		{Long: optCPUsPerTask, Short: 'c', Argument: "count", InScript: true, Environment: []string{"GSUB_CPUS_PER_TASK"}, Help: "CPUs for each task", Default: "1"},
		{Long: optMem, Argument: "size[K|M|G|T]", InScript: true, Environment: variables("MEM_PER_NODE"), Help: "memory on each node, in megabytes unless a unit is given; 0 is all memory of the nodes"},
		{Long: optMemPerCPU, Argument: "size[K|M|G|T]", InScript: true, Environment: variables("MEM_PER_CPU"), Help: "memory for each CPU", Default: "the partition's"},
		{Long: optGPUs, Short: 'G', Argument: "[model:]count", InScript: true, Environment: variables("GPUS"), Help: "GPUs for the whole job, all of one model"},
		{Long: optGPUsPerNode, Argument: "[model:]count", InScript: true, Environment: variables("GPUS_PER_NODE"), Help: "GPUs on each node"},
		{Long: optGres, Argument: "gpu[:model]:count", InScript: true, Environment: variables("GRES"), Help: "as --gpus-per-node, in Slurm's older words"},
		{Long: optTime, Short: 't', Argument: "time", InScript: true, Environment: variables("TIMELIMIT"), Help: "longest run: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds or UNLIMITED", Default: "the partition's"},
		{Long: optArray, Short: 'a', Argument: "indexes", InScript: true, Environment: variables("ARRAY_INX"), Help: "one task for each index, as in 0-9:2,20; %n lets at most n run at once"},
		{Long: optOutput, Short: 'o', Argument: "file", InScript: true, Environment: variables("OUTPUT"), Help: "file for standard output", Default: "slurm-%j.out, slurm-%A_%a.out for arrays"},
		{Long: optError, Short: 'e', Argument: "file", InScript: true, Environment: variables("ERROR"), Help: "file for standard error", Default: "the one of standard output"},
		{Long: optInput, Short: 'i', Argument: "file", InScript: true, Environment: variables("INPUT"), Help: "file for standard input", Default: "/dev/null"},
		{Long: optOpenMode, Argument: "append|truncate", InScript: true, Environment: variables("OPEN_MODE"), Help: "what happens to an output file that exists", Default: "truncate; append after a requeue"},
		{Long: optChdir, Short: 'D', Argument: "directory", InScript: true, Help: "directory the script starts in", Default: "the current one"},
		{Long: optNodelist, Short: 'w', Argument: "nodes", InScript: true, Help: "nodes that must be part of the job, as in n[1-3,7]"},
		{Long: optExclude, Short: 'x', Argument: "nodes", InScript: true, Help: "nodes that must not be part of the job"},
		{Long: optNetwork, Argument: "host|private", InScript: true, Environment: variables("NETWORK"), Help: "the node's network, or one of the job's own with nothing but loopback", Default: "host"},
		{Long: optAccount, Short: 'A', Argument: "account", InScript: true, Environment: variables("ACCOUNT"), Help: "account to charge", Default: "yours"},
		{Long: optQOS, Short: 'q', Argument: "qos", InScript: true, Environment: variables("QOS"), Help: "quality of service to run under", Default: "the account's"},
		{Long: optWCKey, Argument: "key", InScript: true, Environment: variables("WCKEY"), Help: "a word to group usage by"},
		{Long: optLicenses, Short: 'L', Argument: "name[:count][,...]", InScript: true, Help: "licenses that the job holds while it runs, one of each unless a number is given"},
		{Long: optComment, Argument: "text", InScript: true, Help: "a remark kept with the job"},
		{Long: optHold, Short: 'H', InScript: true, Help: "accept the job, but do not start it until it is released (gcontrol release)"},
		{Long: optDependency, Short: 'd', Argument: "type:job[:job...][,...]", InScript: true, Environment: []string{"GSUB_DEPENDENCY"}, Help: "wait for other jobs: after:JOB[+MINUTES] (begun), afterok, afternotok and afterany (over), aftercorr:ARRAY (task by task), singleton (others of this name); all of those joined with commas, any of those joined with ?"},
		{Long: optKillOnInvalid, Argument: "yes|no", InScript: true, Help: "cancel the job when its dependency can never be met", Default: "no"},
		{Long: optBegin, Short: 'b', Argument: "time", InScript: true, Environment: []string{"GSUB_BEGIN"}, Help: "do not start before that: 16:00, noon, tomorrow, now+1hour, 2030-01-20T12:34"},
		{Long: optDeadline, Argument: "time", InScript: true, Environment: []string{"GSUB_DEADLINE"}, Help: "remove the job when it cannot end before that any more, and end it then; times as for --begin"},
		{Long: optPriority, Argument: "value", InScript: true, Help: "fix the priority, which only administrators may; 0 holds the job"},
		{Long: optNice, Argument: "adjustment", OptionalArgument: true, InScript: true, Help: "lower the priority; 100 if no number is attached"},
		{Long: optRequeue, InScript: true, Environment: variables("REQUEUE"), Help: "start the job again if a node fails (the default)"},
		{Long: optNoRequeue, InScript: true, Environment: variables("NO_REQUEUE"), Help: "never start the job again"},
		{Long: optExport, Argument: "ALL|NONE|[ALL,]name[=value],...", InScript: true, Environment: variables("EXPORT"), Help: "the environment variables to hand to the job", Default: "ALL"},
		{Long: optWait, Short: 'W', InScript: true, Environment: variables("WAIT"), Help: "wait for the end of the job and exit with its exit status"},
		{Long: optWaitAllNodes, Argument: "0|1", InScript: true, Environment: variables("WAIT_ALL_NODES"), Help: "accepted and without effect: a script always starts when all its nodes are ready"},
		{Long: optParsable, InScript: true, Help: "print only the number of the job"},
		{Long: optQuiet, Short: 'Q', InScript: true, Help: "print nothing but errors"},
		{Long: optVerbose, Short: 'v', InScript: true, Environment: variables("DEBUG"), Help: "say what is sent where"},
		{Long: optWrap, Argument: "command", Help: "make the script of a shell command"},
		{Long: optUID, Argument: "user", Help: "submit for this user, by name or number; only root may"},
		{Long: "ignore-pbs", Environment: variables("IGNORE_PBS"), InScript: true, Help: "accepted and without effect: #PBS lines are never read"},
	}
}
