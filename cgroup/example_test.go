package cgroup_test

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// A command gets one CPU, a gigabyte and no device but /dev/null, and is
// removed with everything it started.
func Example() {
	group := cgroup.New("/batch/12.1", cgroup.Limits{
		CPUs:             []int{0},
		MemoryBytes:      1 << 30,
		Pids:             100,
		Devices:          []cgroup.Device{{Type: 'c', Major: 1, Minor: 3, Access: "rw"}},
		DenyOtherDevices: true,
	})
	if err := group.Create(); err != nil {
		fmt.Println(err)
		return
	}
	cmd := exec.Command("make", "all")
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return
	}
	if err := group.Add(cmd.Process.Pid); err != nil {
		fmt.Println(err)
	}
	_ = cmd.Wait()
	usage, _ := group.Usage()
	fmt.Println("peak", usage.PeakMemoryBytes, "CPU", time.Duration(usage.CPUNs))

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := group.Kill(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(group.Remove())
}
