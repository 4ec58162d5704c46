package slurmconf

import (
	"strings"
)

// counterparts are the keys with one in cluster.toml: the part, the key there, and what it
// takes: a number, a time in seconds or Slurm's words, a text, a list, yes or no.
var counterparts = map[string]struct{ table, key, takes string }{
	"clustername": {"", "cluster_name", "text"}, "minjobage": {"", "min_job_age", "number"}, "killwait": {"", "kill_wait", "number"},
	"maxarraysize": {"", "max_array_size", "number"}, "maxjobcount": {"", "max_job_count", "number"},
	"privatedata": {"", "private_data", "list"}, "requeueexit": {"", "requeue_exit", "text"}, "requeueexithold": {"", "requeue_exit_hold", "text"},
	"defmempercpu": {"", "def_mem_per_cpu", "memory"}, "defmempergpu": {"", "def_mem_per_gpu", "memory"},

	"priorityweightage": {"priority", "weight_age", "number"}, "priorityweightassoc": {"priority", "weight_assoc", "number"},
	"priorityweightfairshare": {"priority", "weight_fair_share", "number"}, "priorityweightjobsize": {"priority", "weight_job_size", "number"},
	"priorityweightpartition": {"priority", "weight_partition", "number"}, "priorityweightqos": {"priority", "weight_qos", "number"},
	"prioritymaxage": {"priority", "max_age", "text"}, "prioritydecayhalflife": {"priority", "decay_half_life", "text"},
	"priorityfavorsmall": {"priority", "favor_small", "yes"}, "priorityusageresetperiod": {"priority", "usage_reset_period", "text"},

	"preemptexempttime": {"preempt", "exempt_time", "text"},
}

// settled are keys that need no setting, and why.
var settled = map[string]string{
	"accountingstoragetype": "accounts are kept by the controllers", "accountingstoragehost": "accounts are kept by the controllers", "accountingstoreflags": "accounts are kept by the controllers",
	"authtype": "the kernel or a certificate says who asks, or munge with munge_socket in gctld.toml", "credtype": "the kernel, or a certificate, says who asks",
	"cryptotype": "the kernel, or a certificate, says who asks", "mpidefault": "srun serves a program of Open MPI by PMIx, any other by PMI-2 and PMI-1; --mpi and SLURM_MPI_TYPE say otherwise",
	"proctracktype": "each job has its own container and control groups", "taskplugin": "each job has its own container and control groups",
	"jobacctgathertype": "each job has its own container and control groups", "selecttype": "CPUs, memory and GPUs are always counted", "selecttypeparameters": "CPUs, memory and GPUs are always counted",
	"prioritytype": "the priority is multifactor as soon as a weight is set", "priorityflags": "Fair Tree is always used",
	"statesavelocation": "data_dir in gctld.toml", "slurmctldhost": "each controller has its gctld.toml", "slurmctldport": "listen in gctld.toml", "slurmctldlogfile": "logs go to the journal",
	"slurmctlddebug": "log_level in gctld.toml", "slurmddebug": "log_level in gnoded.toml", "slurmdlogfile": "logs go to the journal", "slurmdport": "nodes listen on nothing",
	"slurmdspooldir": "state_dir in gnoded.toml", "slurmuser": "gctld runs as gleaner", "slurmduser": "gnoded runs as root", "slurmctldpidfile": "systemd looks after daemons", "slurmdpidfile": "systemd looks after daemons",
	"controlmachine": "each controller has its gctld.toml", "backupcontroller": "each controller has its gctld.toml",
	"slurmdtimeout": "lease in cluster.toml, which is shorter: jobs run on when it ends unless lease_action says otherwise", "slurmctldtimeout": "election_timeout in gctld.toml",
	"returntoservice": "a node comes back by itself", "gresTypes": "GPUs are found by gnoded", "grestypes": "GPUs are found by gnoded", "switchtype": "needs no setting",
	"topologyplugin": "[[switch]] in cluster.toml", "prologflags": "a container is made before the job starts", "maildomain": "domain = below [mail] in cluster.toml, with a program or a server", "mailprog": "program = below [mail] in cluster.toml, which is called as sendmail(8) is",
	"fairsharedampeningfactor": "Fair Tree does not use it", "jobrequeue": "jobs may be requeued unless they say --no-requeue", "inactivelimit": "--inactive-limit of grun and galloc",
}

// lacking are keys without a counterpart that change what jobs may do, and what to do.
var lacking = map[string]string{
	"prolog": "there are no prologs yet", "epilog": "there are no epilogs yet", "taskprolog": "there are no prologs yet", "taskepilog": "there are no epilogs yet",
	"prologslurmctld": "there are no prologs yet", "epilogslurmctld": "there are no epilogs yet", "healthcheckprogram": "gnoded checks its node itself; drain it with gcontrol",
	"jobsubmitplugins": "there are no plugins: policy is in cluster.toml", "resumeprogram": "nodes are not switched on and off", "suspendprogram": "nodes are not switched on and off",
	"federationparameters": "clusters do not federate", "burstbuffertype": "there are no burst buffers", "enforcepartlimits": "a job that can never start is always refused",
	"maxstepcount": "steps have a bound of their own", "defcpupergpu": "jobs say --cpus-per-gpu", "maxmempercpu": "give the QOS of the partition a limit", "maxmempernode": "give the QOS of the partition a limit",
}

// global takes one setting of the whole cluster.
func (c *converter) global(s said) {
	key := strings.ToLower(s.key)
	if to, known := counterparts[key]; known {
		part := &c.top
		switch to.table {
		case "priority":
			part = &c.priority
		case "preempt":
			part = &c.preempt
		}
		c.take(part, to.table, s, to.key+" = "+valueOf(to.takes, s.value))
		return
	}
	switch key {
	case "preempttype":
		kind := map[string]string{"preempt/none": "none", "preempt/qos": "qos", "preempt/partition_prio": "partition"}[strings.ToLower(s.value)]
		c.take(&c.preempt, "preempt", s, "type = "+quoted(orUnknown(kind, s.value)))
	case "preemptmode":
		c.preemptMode(s)
	case "schedulertype":
		c.take(&c.scheduler, "scheduler", s, "type = "+quoted(strings.TrimPrefix(strings.ToLower(s.value), "sched/")))
	case "schedulerparameters", "slurmctldparameters":
		c.parameters(s)
	case "licenses":
		c.licenses(s)
	case "accountingstorageenforce":
		c.enforcement(s)
	case "priorityweighttres":
		c.tresWeights(s)
	case "priorityflags":
		c.priorityFlags(s)
	default:
		c.without(s, key)
	}
}

// without lists what has no counterpart, unless there is nothing to do about it.
func (c *converter) without(s said, key string) {
	if why, known := settled[key]; known {
		c.drop(s.Place, s.key, "needs nothing: "+why)
		return
	}
	if why, known := lacking[key]; known {
		c.drop(s.Place, s.key, why)
		return
	}
	c.drop(s.Place, s.key, "has no counterpart")
}

func valueOf(takes, value string) string {
	switch takes {
	case "number":
		return orText(value)
	case "list":
		return list(value)
	case "yes":
		return boolean(value)
	case "memory": // megabytes
		return quoted(strings.TrimSuffix(value, "M") + "M")
	}
	return quoted(value)
}

// orText is a number as TOML, or a text that the reader refuses with a reason.
func orText(value string) string {
	if value == "" || strings.Trim(value, "0123456789") != "" || len(value) > 1 && value[0] == '0' || len(value) > 18 {
		return quoted(value)
	}
	return value
}

func orUnknown(known, value string) string {
	if known == "" {
		return value
	}
	return known
}

// preemptMode takes the mode; GANG is time slicing, which there is not.
func (c *converter) preemptMode(s said) {
	for mode := range strings.SplitSeq(strings.ToLower(s.value), ",") {
		if mode == "gang" || mode == "within" {
			c.drop(s.Place, s.key+"="+mode, "jobs are not time-sliced, and do not preempt within a partition")
			continue
		}
		c.take(&c.preempt, "preempt", s, "mode = "+quoted(mode))
	}
}

// parameters takes those of SchedulerParameters and SlurmctldParameters that cluster.toml
// has by the same names.
func (c *converter) parameters(s said) {
	for word := range strings.SplitSeq(s.value, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		one := said{s.Place, s.key + ": " + name, value}
		switch name = strings.ToLower(name); name {
		case "":
		case "bf_job_part_count_reserve", "bf_max_job_test", "bf_max_job_array_resv":
			c.take(&c.scheduler, "scheduler", one, name+" = "+orText(value))
		case "enable_user_top":
			c.take(&c.scheduler, "scheduler", one, "enable_user_top = true")
		case "rl_enable":
			c.take(&c.top, "", one, "rl_enable = true")
		case "rl_bucket_size", "rl_refill_rate", "rl_refill_period", "rl_table_size", "rl_log_freq":
			c.take(&c.top, "", one, name+" = "+orText(value))
		default:
			c.drop(s.Place, one.key, "has no counterpart")
		}
	}
}

func (c *converter) licenses(s said) {
	for word := range strings.SplitSeq(s.value, ",") {
		name, count, found := strings.Cut(strings.TrimSpace(word), ":")
		if !found {
			count = "1"
		}
		if name != "" {
			c.takeTable(said{s.Place, s.key, word}, "[[license]]\nname = "+quoted(name)+"\ncount = "+orText(count)+"\n")
		}
	}
}

func (c *converter) enforcement(s said) {
	var taken []string
	for word := range strings.SplitSeq(strings.ToLower(s.value), ",") {
		word = strings.TrimSpace(word)
		if word == "" || word == "none" || word == "0" {
			continue
		}
		var none []string
		before := len(c.left)
		c.take(&none, "accounting", said{s.Place, s.key, word}, "enforce = "+list(word))
		if len(c.left) == before {
			taken = append(taken, word)
		}
	}
	c.enforce = strings.Join(taken, ",")
}

func (c *converter) tresWeights(s said) {
	for word := range strings.SplitSeq(s.value, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(word), "=")
		if name != "" {
			c.take(&c.weights, "priority.weight_tres", said{s.Place, s.key, word}, quoted(strings.ToLower(name))+" = "+orText(weight))
		}
	}
}

func (c *converter) priorityFlags(s said) {
	for word := range strings.SplitSeq(strings.ToUpper(s.value), ",") {
		one := said{s.Place, s.key, word}
		switch strings.TrimSpace(word) {
		case "", "NO_FAIR_TREE":
			c.drop(s.Place, s.key+"="+word, "Fair Tree is always used")
		case "SMALL_RELATIVE_TO_TIME":
			c.take(&c.priority, "priority", one, "small_relative_to_time = true")
		case "MAX_TRES":
			c.take(&c.priority, "priority", one, "max_tres = true")
		default:
			c.drop(s.Place, s.key+"="+word, "has no counterpart")
		}
	}
}
