package cgroup

import "testing"

// Groups below another one have together no more processes than that may have.
func TestLimitProcesses(t *testing.T) {
	requireController(t, "pids")
	g := create(t, Limits{})
	if err := LimitProcesses(g.Path(), 6); err != nil {
		t.Fatal(err)
	}
	a, b := below(t, g, "a"), below(t, g, "b")
	start(t, a, "sleep 600 & sleep 600 & sleep 600 & wait")
	eventually(t, "the first has its processes", func() bool { return count(t, a) == 4 })
	if code := run(t, b, "sleep 0 & sleep 0 & sleep 0 & wait"); code == 0 {
		t.Error("the second had four processes beside the first, of six in all")
	}
	if code := run(t, b, "true"); code != 0 {
		t.Errorf("the second cannot run at all: %d", code)
	}
	if room, err := ProcessRoom(); err != nil || room < 1024 {
		t.Errorf("the kernel has room for %d processes, %v", room, err)
	}
	if err := LimitProcesses("/no/such/group", 6); err == nil {
		t.Error("a group that does not exist was limited")
	}
}
