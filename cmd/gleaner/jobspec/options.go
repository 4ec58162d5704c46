package jobspec

import (
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Long names of gsubmit's options, which are also the keys of their values.
const (
	OptAccount       = "account"
	optQOS           = "qos"
	optArray         = "array"
	optBegin         = "begin"
	OptChdir         = "chdir"
	OptComment       = "comment"
	optLicenses      = "licenses"
	optReservation   = "reservation"
	OptConstraint    = "constraint"
	OptCPUsPerTask   = "cpus-per-task"
	optDeadline      = "deadline"
	optDependency    = "dependency"
	OptError         = "error"
	OptExclude       = "exclude"
	OptExclusive     = "exclusive"
	OptExport        = "export"
	OptGPUs          = "gpus"
	OptGPUsPerNode   = "gpus-per-node"
	OptGres          = "gres"
	OptHold          = "hold"
	OptInput         = "input"
	OptJobName       = "job-name"
	optKillOnInvalid = "kill-on-invalid-dep"
	optIgnorePBS     = "ignore-pbs"
	optMailType      = "mail-type"
	optMailUser      = "mail-user"
	OptMem           = "mem"
	optTmp           = "tmp"
	OptMemPerCPU     = "mem-per-cpu"
	OptNetwork       = "network"
	OptNice          = "nice"
	OptNodelist      = "nodelist"
	OptNodes         = "nodes"
	optNoRequeue     = "no-requeue"
	OptNtasks        = "ntasks"
	OptNtasksPerNode = "ntasks-per-node"
	OptOpenMode      = "open-mode"
	OptOutput        = "output"
	OptParsable      = "parsable"
	OptPartition     = "partition"
	optPriority      = "priority"
	OptQuiet         = "quiet"
	optRequeue       = "requeue"
	OptTime          = "time"
	optTimeMin       = "time-min"
	OptUID           = "uid"
	OptVerbose       = "verbose"
	OptTestOnly      = "test-only"
	OptWait          = "wait"
	optWaitAllNodes  = "wait-all-nodes"
	OptWCKey         = "wckey"
	optWrap          = "wrap"
)

// variables are the environment variables of an option: ours, which wins, and
// sbatch's.
func variables(suffix string) []string { return []string{"GSUB_" + suffix, "SBATCH_" + suffix} }

// Options is the table of a command that submits a script: the options that
// are supported, those without effect, then those that are refused by name.
func Options() []option.Option {
	return slices.Concat(submitOptions(), placementOptions(), stepOptions(), containerOptions(), stagingOptions(), checkpointOptions(), submitIgnored(), submitLater())
}

// notAllocated are options of gsubmit that say something of its script only.
var notAllocated = []string{optArray, OptOutput, OptError, OptInput, OptOpenMode, OptExport, OptParsable, OptWait, optWaitAllNodes, optWrap, OptTestOnly, optIgnorePBS, OptHold, optRequeue, optNoRequeue}

// AllocationOptions is the table of a command that asks for nodes and has no script.
// Variables are those with these beginnings, in place of gsubmit's.
func AllocationOptions(prefixes ...string) []option.Option {
	var table []option.Option
	for _, one := range slices.Concat(submitOptions(), placementOptions(), stepOptions(), containerOptions(), allocationStaging(), checkpointOptions(), submitIgnored(), submitLater()) {
		if slices.Contains(notAllocated, one.Long) || one.Long == OptVerbose || one.Long == OptQuiet {
			continue
		}
		var names []string
		for _, name := range one.Environment {
			if suffix, ours := strings.CutPrefix(name, "GSUB_"); ours {
				for _, prefix := range prefixes {
					names = append(names, prefix+suffix)
				}
			}
		}
		if one.Environment, one.InScript = names, false; one.Later != "" {
			one.Environment = nil
		}
		table = append(table, one)
	}
	return table
}

// submitOptions are the options that are supported.
func submitOptions() []option.Option {
	return []option.Option{
		{Long: OptJobName, Short: 'J', Argument: "name", InScript: true, Environment: variables("JOB_NAME"), Help: "name of the job", Default: "the script's file name"},
		{Long: OptPartition, Short: 'p', Argument: "partition[,...]", InScript: true, Environment: variables("PARTITION"), Help: "where to run; of several, the first that can", Default: "the cluster's default partition"},
		{Long: OptNodes, Short: 'N', Argument: "min[-max]", InScript: true, Environment: []string{"GSUB_NODES"}, Help: "number of nodes; of a range, as many as are free", Default: "as many as the tasks need"},
		{Long: OptNtasks, Short: 'n', Argument: "count", InScript: true, Environment: []string{"GSUB_NTASKS"}, Help: "number of tasks that steps of the job will run"},
		{Long: OptNtasksPerNode, Aliases: []string{"tasks-per-node"}, Argument: "count", InScript: true, Help: "tasks on each node"},
		{Long: OptCPUsPerTask, Short: 'c', Argument: "count", InScript: true, Environment: []string{"GSUB_CPUS_PER_TASK"}, Help: "CPUs for each task", Default: "1"},
		{Long: OptMem, Argument: "size[K|M|G|T]", InScript: true, Environment: variables("MEM_PER_NODE"), Help: "memory on each node, in megabytes unless a unit is given; 0 is all memory of the nodes"},
		{Long: OptMemPerCPU, Argument: "size[K|M|G|T]", InScript: true, Environment: variables("MEM_PER_CPU"), Help: "memory for each CPU", Default: "the partition's"},
		{Long: optTmp, Argument: "size[K|M|G|T]", InScript: true, Help: "what the job may write to the disk of each node (/tmp, /var/tmp and the rest of its root), in megabytes unless a unit is given", Default: "what the node gives by CPUs"},
		{Long: OptGPUs, Short: 'G', Argument: "[model:]count", InScript: true, Environment: variables("GPUS"), Help: "GPUs for the whole job, all of one model"},
		{Long: OptGPUsPerNode, Argument: "[model:]count", InScript: true, Environment: variables("GPUS_PER_NODE"), Help: "GPUs on each node"},
		{Long: OptGres, Argument: "gpu[:model]:count", InScript: true, Environment: variables("GRES"), Help: "as --gpus-per-node, in Slurm's older words"},
		{Long: OptTime, Short: 't', Argument: "time", InScript: true, Environment: variables("TIMELIMIT"), Help: "longest run: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds or UNLIMITED", Default: "the partition's"},
		{Long: optTimeMin, Argument: "time", InScript: true, Help: "least time limit: the job starts with less than --time, but no less than this, where that lets it start sooner; times as for --time", Default: "the time limit"},
		{Long: optArray, Short: 'a', Argument: "indexes", InScript: true, Environment: variables("ARRAY_INX"), Help: "one task for each index, as in 0-9:2,20; %n lets at most n run at once"},
		{Long: OptOutput, Short: 'o', Argument: "file", InScript: true, Environment: variables("OUTPUT"), Help: "file for standard output", Default: "slurm-%j.out, slurm-%A_%a.out for arrays"},
		{Long: OptError, Short: 'e', Argument: "file", InScript: true, Environment: variables("ERROR"), Help: "file for standard error", Default: "the one of standard output"},
		{Long: OptInput, Short: 'i', Argument: "file", InScript: true, Environment: variables("INPUT"), Help: "file for standard input", Default: "/dev/null"},
		{Long: OptOpenMode, Argument: "append|truncate", InScript: true, Environment: variables("OPEN_MODE"), Help: "what happens to an output file that exists", Default: "truncate; append after a requeue"},
		{Long: OptChdir, Short: 'D', Argument: "directory", InScript: true, Help: "directory the script starts in", Default: "the current one"},
		{Long: OptNodelist, Short: 'w', Argument: "nodes", InScript: true, Help: "nodes that must be part of the job, as in n[1-3,7]"},
		{Long: OptExclude, Short: 'x', Argument: "nodes", InScript: true, Help: "nodes that must not be part of the job"},
		{Long: OptNetwork, Argument: "host|private", InScript: true, Environment: variables("NETWORK"), Help: "the node's network, where other jobs reach the job's loopback ports and abstract sockets, or one of the job's own with nothing but loopback, on each of its nodes. Some partitions allow private only", Default: "as the partition says"},
		{Long: OptAccount, Short: 'A', Argument: "account", InScript: true, Environment: variables("ACCOUNT"), Help: "account to charge", Default: "yours"},
		{Long: optQOS, Short: 'q', Argument: "qos", InScript: true, Environment: variables("QOS"), Help: "quality of service to run under", Default: "the account's"},
		{Long: OptWCKey, Argument: "key", InScript: true, Environment: variables("WCKEY"), Help: "a word to group usage by"},
		{Long: optLicenses, Short: 'L', Argument: "name[:count][,...]", InScript: true, Help: "licenses that the job holds while it runs, one of each unless a number is given"},
		{Long: optReservation, Argument: "name[,...]", InScript: true, Environment: variables("RESERVATION"), Help: "run in this reservation; of several, in the first that lets the job start (gcontrol show reservation)"},
		{Long: OptComment, Argument: "text", InScript: true, Help: "a remark kept with the job"},
		{Long: optMailType, Argument: "type[,...]", InScript: true, Help: "mail about the job: BEGIN, END, FAIL, REQUEUE, INVALID_DEPEND, STAGE_OUT, ALL of these, TIME_LIMIT and TIME_LIMIT_50, _80 and _90 (percent of it are over), ARRAY_TASKS (of each task, not of the array), NONE", Default: "none"},
		{Long: optMailUser, Argument: "address[,...]", InScript: true, Help: "to whom", Default: "you"},
		{Long: OptHold, Short: 'H', InScript: true, Help: "accept the job, but do not start it until it is released (gcontrol release)"},
		{Long: optDependency, Short: 'd', Argument: "type:job[:job...][,...]", InScript: true, Environment: []string{"GSUB_DEPENDENCY"}, Help: "wait for other jobs: after:JOB[+MINUTES] (begun), afterok, afternotok and afterany (over), aftercorr:ARRAY (task by task), singleton (others of this name); all of those joined with commas, any of those joined with ?"},
		{Long: optKillOnInvalid, Argument: "yes|no", InScript: true, Help: "cancel the job when its dependency can never be met", Default: "no"},
		{Long: optBegin, Short: 'b', Argument: "time", InScript: true, Environment: []string{"GSUB_BEGIN"}, Help: "do not start before that: 16:00, noon, tomorrow, now+1hour, 2030-01-20T12:34"},
		{Long: optDeadline, Argument: "time", InScript: true, Environment: []string{"GSUB_DEADLINE"}, Help: "remove the job when it cannot end before that any more, and end it then; times as for --begin"},
		{Long: optPriority, Argument: "value", InScript: true, Help: "fix the priority, which only administrators may; 0 holds the job"},
		{Long: OptNice, Argument: "adjustment", OptionalArgument: true, InScript: true, Help: "lower the priority; 100 if no number is attached"},
		{Long: optRequeue, InScript: true, Environment: variables("REQUEUE"), Help: "start the job again if a node fails (the default)"},
		{Long: optNoRequeue, InScript: true, Environment: variables("NO_REQUEUE"), Help: "never start the job again"},
		{Long: OptExport, Argument: "ALL|NONE|[ALL,]name[=value],...", InScript: true, Environment: variables("EXPORT"), Help: "the environment variables to hand to the job", Default: "ALL"},
		{Long: OptWait, Short: 'W', InScript: true, Environment: variables("WAIT"), Help: "wait for the end of the job and exit with its exit status"},
		{Long: OptTestOnly, InScript: true, Help: "check the job, and say when and where it would start; nothing is submitted"},
		{Long: optWaitAllNodes, Argument: "0|1", InScript: true, Environment: variables("WAIT_ALL_NODES"), Help: "a script always starts when all its nodes are ready, as with 1; 0 is accepted, with a word"},
		{Long: OptParsable, InScript: true, Help: "print only the number of the job"},
		{Long: OptQuiet, Short: 'Q', InScript: true, Help: "print nothing but errors"},
		{Long: OptVerbose, Short: 'v', InScript: true, Environment: variables("DEBUG"), Help: "say what is sent where"},
		{Long: optWrap, Argument: "command", Help: "make the script of a shell command"},
		{Long: OptUID, Argument: "user", Help: "submit for this user, by name or number; only root may"},
		{Long: optIgnorePBS, Environment: variables("IGNORE_PBS"), InScript: true, Help: "no word about #PBS and #BSUB lines: they are never read"},
	}
}
