package jobspec

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

const (
	gpusInstead = "say what the job needs with --gpus, or --gpus-per-node with --ntasks-per-node"
	BindInstead = "leave it out, and bind inside the job with taskset(1) or numactl(1)"
)

// submitLater are the options of sbatch that are refused by name. A job that
// asks for them would otherwise run under conditions it did not ask for.
func submitLater() []option.Option {
	return []option.Option{
		{Long: "batch", Argument: "features", Environment: variables("BATCH"), Later: option.LeaveOut + "; the script runs on the first node"},
		{Long: "bb", Argument: "specification", Later: "name the files with --stage-in and --stage-out"},
		{Long: "bbf", Argument: "file", Later: "name the files with --stage-in and --stage-out"},
		{Long: "container", Argument: "bundle", Environment: variables("CONTAINER"), Later: "bundles of a runtime have no digest, so that two nodes may have different ones: name the image that it was made of with --image"},
		{Long: "export-file", Argument: "file", Later: "read the file inside the script, or name its variables in --export"},
		{Long: "gid", Argument: "group", Later: "submit with newgrp(1) or sg(1) in that group"},
		{Long: "gpus-per-socket", Argument: "[model:]count", Later: gpusInstead},
		{Long: "mcs-label", Argument: "label", Later: option.LeaveOut},
		{Long: "nodefile", Short: 'F', Argument: "file", Later: "name the nodes with --nodelist"},
		{Long: "tres-per-task", Argument: "list", Later: "use --cpus-per-task and --gpus-per-task"},
	}
}

// submitIgnored are the options of sbatch that have no effect here and harm nobody
// by that: a script that names them runs as well.
func submitIgnored() []option.Option {
	return []option.Option{
		{Long: "acctg-freq", Argument: "interval", Environment: variables("ACCTG_FREQ"), InScript: true, Ignored: "usage is measured by the kernel, not sampled"},
		{Long: "cluster-constraint", Argument: "features", InScript: true, Ignored: "there is one cluster"},
		{Long: "core-spec", Short: 'S', Argument: "count", Environment: variables("CORE_SPEC"), InScript: true, Ignored: "the job gets all CPUs that it asks for"},
		{Long: "cores-per-socket", Argument: "count", InScript: true, Ignored: "jobs get CPUs, of whatever sockets"},
		{Long: "cpu-freq", Argument: "range", InScript: true, Ignored: "the nodes choose their frequencies"},
		{Long: "delay-boot", Argument: "minutes", Environment: variables("DELAY_BOOT"), InScript: true, Ignored: "nodes are not powered down"},
		{Long: "extra", Argument: "text", InScript: true, Ignored: "the nodes carry no such words"},
		{Long: "extra-node-info", Short: 'B', Argument: "counts", InScript: true, Ignored: "jobs get CPUs, of whatever sockets"},
		{Long: "get-user-env", Argument: "mode", OptionalArgument: true, Environment: variables("GET_USER_ENV"), InScript: true, Ignored: "a script that begins with #!/bin/bash -l reads the login environment"},
		{Long: "gpu-freq", Argument: "frequencies", Environment: variables("GPU_FREQ"), InScript: true, Ignored: "the nodes choose their frequencies"},
		{Long: "gres-flags", Argument: "flags", Environment: variables("GRES_FLAGS"), InScript: true, Ignored: "GPUs and CPUs are not bound to each other"},
		{Long: "hint", Argument: "type", Environment: variables("HINT"), InScript: true, Ignored: "bind inside the job with taskset(1) or numactl(1)"},
		{Long: "mem-bind", Argument: "type", Environment: variables("MEM_BIND"), InScript: true, Ignored: "bind inside the job with numactl(1)"},
		{Long: "mincpus", Argument: "count", InScript: true, Ignored: "--ntasks-per-node and --cpus-per-task say how many CPUs a node must give"},
		{Long: "no-kill", Short: 'k', Argument: "off", OptionalArgument: true, Environment: variables("NO_KILL"), InScript: true, Ignored: "a job ends when one of its nodes fails"},
		{Long: "ntasks-per-core", Argument: "count", InScript: true, Ignored: "tasks have whole CPUs"},
		{Long: "ntasks-per-socket", Argument: "count", InScript: true, Ignored: "--ntasks-per-node bounds the tasks of a node"},
		{Long: "oom-kill-step", Argument: "0|1", OptionalArgument: true, InScript: true, Ignored: "a job ends when it has used up its memory"},
		{Long: "overcommit", Short: 'O', Environment: variables("OVERCOMMIT"), InScript: true, Ignored: "each task has a CPU of its own; grun --overcommit starts more"},
		{Long: "oversubscribe", Short: 's', InScript: true, Ignored: "jobs share nodes, never CPUs or GPUs"},
		{Long: "power", Argument: "flags", Environment: variables("POWER"), InScript: true, Ignored: "the nodes manage their power"},
		{Long: "prefer", Argument: "features", InScript: true, Ignored: "--constraint asks for features that the nodes must have"},
		{Long: "profile", Argument: "types", Environment: variables("PROFILE"), InScript: true, Ignored: "usage is measured by the kernel, not sampled"},
		{Long: "propagate", Argument: "limits", OptionalArgument: true, InScript: true, Ignored: "set limits inside the script with ulimit"},
		{Long: "reboot", InScript: true, Ignored: "nodes are not rebooted for a job"},
		{Long: "resv-ports", Argument: "count", OptionalArgument: true, InScript: true, Ignored: "ports are not handed out"},
		{Long: "segment", Argument: "count", InScript: true, Ignored: "use --switches to keep nodes together"},
		{Long: "sockets-per-node", Argument: "count", InScript: true, Ignored: "jobs get CPUs, of whatever sockets"},
		{Long: "stepmgr", InScript: true, Ignored: "each job keeps its own steps"},
		{Long: "thread-spec", Argument: "count", Environment: variables("THREAD_SPEC"), InScript: true, Ignored: "the job gets all CPUs that it asks for"},
		{Long: "threads-per-core", Argument: "count", Environment: variables("THREADS_PER_CORE"), InScript: true, Ignored: "jobs get CPUs, of whatever cores"},
		{Long: "tres-bind", Argument: "list", InScript: true, Ignored: "tasks share what the job has on their node"},
	}
}
