package jobspec

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

const (
	countInstead = "say what the job needs with --ntasks, --cpus-per-task and --nodes"
	gpusInstead  = "say what the job needs with --gpus, or --gpus-per-node with --ntasks-per-node"
	BindInstead  = "leave it out, and bind inside the job with taskset(1) or numactl(1)"
)

// submitLater are the options of sbatch that are refused by name. A job that
// asks for them would otherwise run under conditions it did not ask for.
func submitLater() []option.Option {
	return []option.Option{
		{Long: "acctg-freq", Argument: "interval", Environment: variables("ACCTG_FREQ"), Later: option.LeaveOut + "; usage is measured by the kernel, not sampled"},
		{Long: "batch", Argument: "features", Environment: variables("BATCH"), Later: option.LeaveOut + "; the script runs on the first node"},
		{Long: "bb", Argument: "specification", Later: "copy files inside the script"},
		{Long: "bbf", Argument: "file", Later: "copy files inside the script"},
		{Long: "cluster-constraint", Argument: "features", Later: option.LeaveOut + "; there is one cluster"},
		{Long: "clusters", Short: 'M', Argument: "names", Environment: variables("CLUSTERS"), Later: "name the controller of the other cluster with --controller"},
		{Long: "container", Argument: "bundle", Environment: variables("CONTAINER"), Later: "there is no OCI runtime for jobs, and container engines need namespaces that a job may not make: unpack the image to a directory and use its programs by their paths (a virtual environment, a module, a squashfs that an administrator mounts)"},
		{Long: "core-spec", Short: 'S', Argument: "count", Environment: variables("CORE_SPEC"), Later: option.LeaveOut},
		{Long: "cores-per-socket", Argument: "count", Later: countInstead},
		{Long: "cpu-freq", Argument: "range", Later: option.LeaveOut},
		{Long: "delay-boot", Argument: "minutes", Environment: variables("DELAY_BOOT"), Later: option.LeaveOut},
		{Long: "distribution", Short: 'm', Argument: "method", Environment: variables("DISTRIBUTION"), Later: option.LeaveOut + "; tasks are laid out in blocks"},
		{Long: "export-file", Argument: "file", Later: "read the file inside the script, or name its variables in --export"},
		{Long: "extra-node-info", Short: 'B', Argument: "counts", Later: countInstead},
		{Long: "get-user-env", Argument: "mode", OptionalArgument: true, Environment: variables("GET_USER_ENV"), Later: "start the script with #!/bin/bash -l"},
		{Long: "gid", Argument: "group", Later: "submit with newgrp(1) or sg(1) in that group"},
		{Long: "gpu-bind", Argument: "type", Environment: variables("GPU_BIND"), Later: "give it to grun, which starts the tasks"},
		{Long: "gpu-freq", Argument: "frequencies", Environment: variables("GPU_FREQ"), Later: option.LeaveOut},
		{Long: "gpus-per-socket", Argument: "[model:]count", Later: gpusInstead},
		{Long: "gres-flags", Argument: "flags", Environment: variables("GRES_FLAGS"), Later: option.LeaveOut},
		{Long: "hint", Argument: "type", Environment: variables("HINT"), Later: BindInstead},
		{Long: "mail-type", Argument: "types", Later: "send mail at the end of the script"},
		{Long: "mail-user", Argument: "user", Later: "send mail at the end of the script"},
		{Long: "mcs-label", Argument: "label", Later: option.LeaveOut},
		{Long: "mem-bind", Argument: "type", Environment: variables("MEM_BIND"), Later: BindInstead},
		{Long: "mincpus", Argument: "count", Later: countInstead},
		{Long: "no-kill", Short: 'k', Argument: "off", OptionalArgument: true, Environment: variables("NO_KILL"), Later: option.LeaveOut + "; a job ends when one of its nodes fails"},
		{Long: "nodefile", Short: 'F', Argument: "file", Later: "name the nodes with --nodelist"},
		{Long: "ntasks-per-core", Argument: "count", Later: countInstead},
		{Long: "ntasks-per-socket", Argument: "count", Later: countInstead},
		{Long: "overcommit", Short: 'O', Environment: variables("OVERCOMMIT"), Later: "start more processes inside a task"},
		{Long: "oversubscribe", Short: 's', Later: option.LeaveOut + "; jobs share nodes, never CPUs or GPUs"},
		{Long: "power", Argument: "flags", Environment: variables("POWER"), Later: option.LeaveOut},
		{Long: "prefer", Argument: "features", Later: "ask for them with --constraint"},
		{Long: "profile", Argument: "types", Environment: variables("PROFILE"), Later: option.LeaveOut},
		{Long: "propagate", Argument: "limits", OptionalArgument: true, Later: "set limits inside the script with ulimit"},
		{Long: "reboot", Later: option.LeaveOut},
		{Long: "sockets-per-node", Argument: "count", Later: countInstead},
		{Long: "thread-spec", Argument: "count", Environment: variables("THREAD_SPEC"), Later: option.LeaveOut},
		{Long: "threads-per-core", Argument: "count", Environment: variables("THREADS_PER_CORE"), Later: countInstead},
		{Long: "time-min", Argument: "time", Later: "give the time you need with --time"},
		{Long: "tres-per-task", Argument: "list", Later: "use --cpus-per-task and --gpus-per-task"},
	}
}
