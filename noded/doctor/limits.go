package doctor

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// leastLeft is what the system and the daemons need beside jobs.
const leastLeft = 256 << 20

func (d *doctor) checkMemory(context.Context) []finding.Finding {
	const name = "memory"
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return []finding.Finding{finding.Unseen(name, err.Error())}
	}
	total := uint64(info.Totalram) * uint64(info.Unit)
	available := availableMemory(total)
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

func availableMemory(total uint64) uint64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return total
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			if kib, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return total
}

// leastRoom is how many processes and threads must be left for a job.
const leastRoom = 1024

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
	if now+leastRoom > most {
		return []finding.Finding{finding.Bad(name, seen, "jobs fail to start, or to start threads",
			"echo kernel.pid_max=4194304 >/etc/sysctl.d/60-gleaner.conf && sysctl --system; ps -eo user= | sort | uniq -c says whose they are")}
	}
	return []finding.Finding{finding.Good(name, seen)}
}
