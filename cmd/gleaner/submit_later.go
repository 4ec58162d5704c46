package main

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

const (
	leaveOut     = "leave it out"
	countInstead = "say what the job needs with --ntasks, --cpus-per-task and --nodes"
	gpusInstead  = "say what the job needs with --gpus, or --gpus-per-node with --ntasks-per-node"
	bindInstead  = "leave it out, and bind inside the job with taskset(1) or numactl(1)"
	pickInstead  = "name the nodes with --nodelist, or a feature with --constraint"
)

// submitLater are the options of sbatch that are refused by name. A job that
// asks for them would otherwise run under conditions it did not ask for.
func submitLater() []option.Option {
	return []option.Option{
		{Long: "acctg-freq", Argument: "interval", Environment: variables("ACCTG_FREQ"), Later: leaveOut + "; usage is measured by the kernel, not sampled"},
		{Long: "batch", Argument: "features", Environment: variables("BATCH"), Later: leaveOut + "; the script runs on the first node"},
		{Long: "bb", Argument: "specification", Later: "copy files inside the script"},
		{Long: "bbf", Argument: "file", Later: "copy files inside the script"},
		{Long: "cluster-constraint", Argument: "features", Later: leaveOut + "; there is one cluster"},
		{Long: "clusters", Short: 'M', Argument: "names", Environment: variables("CLUSTERS"), Later: "name the controller of the other cluster with --controller"},
		{Long: "container", Argument: "bundle", Environment: variables("CONTAINER"), Later: "start the container inside the script"},
		{Long: "core-spec", Short: 'S', Argument: "count", Environment: variables("CORE_SPEC"), Later: leaveOut},
		{Long: "cores-per-socket", Argument: "count", Later: countInstead},
		{Long: "cpu-freq", Argument: "range", Later: leaveOut},
		{Long: "delay-boot", Argument: "minutes", Environment: variables("DELAY_BOOT"), Later: leaveOut},
		{Long: "distribution", Short: 'm', Argument: "method", Environment: variables("DISTRIBUTION"), Later: leaveOut + "; tasks are laid out in blocks"},
		{Long: "export-file", Argument: "file", Later: "read the file inside the script, or name its variables in --export"},
		{Long: "extra-node-info", Short: 'B', Argument: "counts", Later: countInstead},
		{Long: "get-user-env", Argument: "mode", OptionalArgument: true, Environment: variables("GET_USER_ENV"), Later: "start the script with #!/bin/bash -l"},
		{Long: "gid", Argument: "group", Later: "submit with newgrp(1) or sg(1) in that group"},
		{Long: "gpu-bind", Argument: "type", Environment: variables("GPU_BIND"), Later: "set CUDA_VISIBLE_DEVICES in each task from SLURM_LOCALID"},
		{Long: "gpu-freq", Argument: "frequencies", Environment: variables("GPU_FREQ"), Later: leaveOut},
		{Long: "gpus-per-socket", Argument: "[model:]count", Later: gpusInstead},
		{Long: "gres-flags", Argument: "flags", Environment: variables("GRES_FLAGS"), Later: leaveOut},
		{Long: "hint", Argument: "type", Environment: variables("HINT"), Later: bindInstead},
		{Long: "mail-type", Argument: "types", Later: "send mail at the end of the script"},
		{Long: "mail-user", Argument: "user", Later: "send mail at the end of the script"},
		{Long: "mcs-label", Argument: "label", Later: leaveOut},
		{Long: "mem-bind", Argument: "type", Environment: variables("MEM_BIND"), Later: bindInstead},
		{Long: "mincpus", Argument: "count", Later: countInstead},
		{Long: "no-kill", Short: 'k', Argument: "off", OptionalArgument: true, Environment: variables("NO_KILL"), Later: leaveOut + "; a job ends when one of its nodes fails"},
		{Long: "nodefile", Short: 'F', Argument: "file", Later: "name the nodes with --nodelist"},
		{Long: "ntasks-per-core", Argument: "count", Later: countInstead},
		{Long: "ntasks-per-socket", Argument: "count", Later: countInstead},
		{Long: "overcommit", Short: 'O', Environment: variables("OVERCOMMIT"), Later: "start more processes inside a task"},
		{Long: "oversubscribe", Short: 's', Later: leaveOut + "; jobs share nodes, never CPUs or GPUs"},
		{Long: "power", Argument: "flags", Environment: variables("POWER"), Later: leaveOut},
		{Long: "prefer", Argument: "features", Later: "ask for them with --constraint"},
		{Long: "profile", Argument: "types", Environment: variables("PROFILE"), Later: leaveOut},
		{Long: "propagate", Argument: "limits", OptionalArgument: true, Later: "set limits inside the script with ulimit"},
		{Long: "reboot", Later: leaveOut},
		{Long: "reservation", Argument: "names", Environment: variables("RESERVATION"), Later: pickInstead},
		{Long: "sockets-per-node", Argument: "count", Later: countInstead},
		{Long: "test-only", Later: "ginfo shows which nodes and GPUs are free"},
		{Long: "thread-spec", Argument: "count", Environment: variables("THREAD_SPEC"), Later: leaveOut},
		{Long: "threads-per-core", Argument: "count", Environment: variables("THREADS_PER_CORE"), Later: countInstead},
		{Long: "time-min", Argument: "time", Later: "give the time you need with --time"},
		{Long: "tres-per-task", Argument: "list", Later: "use --cpus-per-task and --gpus-per-task"},
		{Long: "tmp", Argument: "size", Later: leaveOut + "; each job has a /tmp of its own"},
	}
}
