package bundle

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

func TestProcessLimit(t *testing.T) {
	all := AllProcesses(0)
	for _, c := range []struct {
		settings Settings
		cpus     int
		want     int64
	}{
		{Settings{NodeCPUs: 4}, 1, min(all/4, mostProcesses)},
		{Settings{NodeCPUs: 1 << 30}, 1, 1},
		{Settings{NodeCPUs: 4, MaxTotalProcesses: 500}, 1, 125},
		{Settings{NodeCPUs: 64, MaxTotalProcesses: 28672}, 1, 448}, // a small kernel.pid_max
		{Settings{NodeCPUs: 4, MaxTotalProcesses: 8000}, 3, 6000},
		{Settings{NodeCPUs: 4, MaxTotalProcesses: 8000}, 0, 2000},
		{Settings{NodeCPUs: 4, MaxTotalProcesses: 4_000_000}, 4, mostProcesses},
		{Settings{MaxProcesses: 7, NodeCPUs: 4}, 1, 7},
		{Settings{MaxProcesses: 9000, NodeCPUs: 4, MaxTotalProcesses: 8000}, 1, 2000},
		{Settings{MaxProcesses: 9000}, 1, min(all, 9000)},
	} {
		if got := c.settings.ProcessLimit(c.cpus); got != c.want {
			t.Errorf("%d CPUs of %d, %d in all: %d processes, want %d", c.cpus, c.settings.NodeCPUs, c.settings.MaxTotalProcesses, got, c.want)
		}
	}
	if room, err := cgroup.ProcessRoom(); err != nil || all >= room {
		t.Errorf("all jobs may have %d processes, of %d, %v", all, room, err)
	}
}
