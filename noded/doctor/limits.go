package doctor

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/noded/memory"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// leastLeft is what the system and the daemons need beside jobs.
const leastLeft = 256 << 20

func (d *doctor) checkMemory(context.Context) []finding.Finding {
	const name = "memory"
	total, err := memory.Total()
	if err != nil {
		return []finding.Finding{finding.Unseen(name, err.Error())}
	}
	available, err := memory.Available()
	if err != nil {
		available = total
	}
	seen := fmt.Sprintf("%s, of which %s are available", finding.Bytes(total), finding.Bytes(available))
	offered := d.config.MemoryBytes
	switch {
	case offered > 0 && total-min(offered, total) < leastLeft:
		return []finding.Finding{finding.Doubtful(name, seen+"; gnoded.toml offers "+finding.Bytes(offered)+" of it to jobs",
			"jobs that use what they asked for leave the system too little, and the kernel kills something", "lower memory in gnoded.toml, or leave it out")}
	case sysctl("vm/overcommit_memory") == "2":
		return []finding.Finding{finding.Doubtful(name, seen+"; vm.overcommit_memory = 2",
			"CUDA programs reserve far more addresses than memory, and fail", "sysctl -w vm.overcommit_memory=0, and take the 2 out of /etc/sysctl.d")}
	case available < total/20:
		return []finding.Finding{finding.Doubtful(name, seen, "the machine is about to swap or to kill", "see who uses it: ps aux --sort -rss | head")}
	}
	return []finding.Finding{finding.Good(name, seen)}
}

// leastRoom is how many processes and threads must be left for a job.
const leastRoom = 1024

// leastShare is how many of them a job should have for each of its CPUs.
const leastShare = 512

func (d *doctor) checkProcesses(context.Context) []finding.Finding {
	const name = "processes"
	most := uint64(1) << 62
	for _, setting := range []string{"kernel/pid_max", "kernel/threads-max"} {
		if value, err := strconv.ParseUint(sysctl(setting), 10, 64); err == nil {
			most = min(most, value)
		}
	}
	// "0.10 0.20 0.30 2/345 6789": 2 run of 345.
	load, _ := os.ReadFile("/proc/loadavg")
	_, rest, _ := strings.Cut(string(load), "/")
	count, _, _ := strings.Cut(rest, " ")
	now, err := strconv.ParseUint(count, 10, 64)
	if err != nil {
		return []finding.Finding{finding.Unseen(name, "/proc/loadavg cannot be read: is /proc mounted?")}
	}
	seen := fmt.Sprintf("%d processes and threads, of %d that the kernel bears", now, most)
	cpus := uint64(max(d.config.CPUs, runtime.NumCPU()))
	if share := (most - most/8) / cpus; share < leastShare && now+leastRoom <= most {
		return []finding.Finding{finding.Doubtful(name, fmt.Sprintf("%s; a job has %d for each of its CPUs", seen, share), "jobs of few CPUs fail to start threads",
			"echo kernel.pid_max=4194304 >/etc/sysctl.d/60-gleaner.conf && sysctl --system")}
	}
	if now+leastRoom > most {
		return []finding.Finding{finding.Bad(name, seen, "jobs fail to start, or to start threads",
			"echo kernel.pid_max=4194304 >/etc/sysctl.d/60-gleaner.conf && sysctl --system; ps -eo user= | sort | uniq -c says whose they are")}
	}
	return []finding.Finding{finding.Good(name, seen)}
}

// What the kernel counts for each user, of which a job may use a small share, and for
// all, and how much of it a busy node needs.
var neededCounters = []struct {
	setting string
	least   uint64
}{
	{"fs/inotify/max_user_instances", 8192}, {"fs/inotify/max_user_watches", 1 << 20}, {"kernel/pty/max", 4096},
}

func (d *doctor) checkCounters(context.Context) []finding.Finding {
	const name = "counters"
	var low, remedy, seen []string
	for _, c := range neededCounters {
		value, err := strconv.ParseUint(sysctl(c.setting), 10, 64)
		if err != nil {
			continue // a kernel without it
		}
		setting := strings.ReplaceAll(c.setting, "/", ".")
		seen = append(seen, fmt.Sprintf("%s = %d", setting, value))
		if value < c.least {
			low = append(low, fmt.Sprintf("%s = %d", setting, value))
			remedy = append(remedy, fmt.Sprintf("%s=%d", setting, c.least))
		}
	}
	if len(low) > 0 {
		return []finding.Finding{finding.Doubtful(name, strings.Join(low, ", "), "a job may take a small part of each, and programs that watch many files, or open many terminals, find none left",
			fmt.Sprintf("printf '%%s\\n' %s >/etc/sysctl.d/60-gleaner-counters.conf && sysctl --system", strings.Join(remedy, " ")))}
	}
	return []finding.Finding{finding.Good(name, strings.Join(seen, ", "))}
}
