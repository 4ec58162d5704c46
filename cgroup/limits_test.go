package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// control reads a control file of g, on v1 of a controller's directory. Where
// there is no such file it answers "".
func control(t *testing.T, g *Group, controller, file string) string {
	t.Helper()
	directories, err := g.present()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(directories[controller], file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestLimitsWritten looks at what the kernel was told.
func TestLimitsWritten(t *testing.T) {
	g := create(t, Limits{CPUs: []int{0}, CPUWeight: 3, MemoryBytes: 64 << 20, Pids: 50})
	for _, name := range []string{"cpu", "cpuset", "memory", "pids"} {
		requireController(t, name)
	}
	type file struct{ controller, name string }
	wanted := map[file]string{
		{"cpu", "cpu.shares"}: "3072", {"cpuset", "cpuset.cpus"}: "0", {"pids", "pids.max"}: "50",
		{"memory", "memory.limit_in_bytes"}: "67108864", {"memory", "memory.memsw.limit_in_bytes"}: "67108864",
	}
	if isV2() {
		wanted = map[file]string{
			{"", "cpu.weight"}: "60", {"", "cpuset.cpus"}: "0", {"", "pids.max"}: "50", {"", "memory.max"}: "67108864",
			// No swap beside the memory; and one process is killed, not all.
			{"", "memory.swap.max"}: "0", {"", "memory.oom.group"}: "0",
		}
	}
	for file, want := range wanted {
		got := control(t, g, file.controller, file.name)
		if got == "" && strings.Contains(file.name, "sw") {
			continue // a kernel that does not account for swap
		}
		if got != want {
			t.Errorf("%s is %q, want %q", file.name, got, want)
		}
	}
}

func TestChangePids(t *testing.T) {
	g := create(t, Limits{Pids: 2})
	requireController(t, "pids")
	start(t, g, "sleep 600")
	eventually(t, "it has a child", func() bool { return count(t, g) == 2 })
	const three = `true & true & wait`
	if run(t, g, three) == 0 {
		t.Error("more processes than the limit")
	}
	if err := New(g.Path(), Limits{Pids: 20}).Create(); err != nil {
		t.Fatal(err)
	}
	if code := run(t, g, three); code != 0 {
		t.Errorf("exit code %d under the raised limit", code)
	}
	if n := count(t, g); n == 0 {
		t.Error("the process is gone")
	}
}

func TestChangeMemory(t *testing.T) {
	g := create(t, Limits{MemoryBytes: 64 << 20})
	requireController(t, "memory")
	const held = 12 << 20
	start(t, g, `{ head -c 12582912 /dev/zero; sleep 600; } | tail -c 12582912`)
	current := func() uint64 {
		usage, err := g.Usage()
		if err != nil {
			t.Fatal(err)
		}
		return usage.CurrentMemoryBytes
	}
	eventually(t, "the memory is in use", func() bool { return current() >= held })
	if err := New(g.Path(), Limits{MemoryBytes: 8 << 20}).Create(); err == nil {
		t.Error("a limit below what is in use was accepted")
	}
	for _, limit := range []uint64{128 << 20, 48 << 20} {
		if err := New(g.Path(), Limits{MemoryBytes: limit}).Create(); err != nil {
			t.Errorf("limit of %d: %v", limit, err)
		}
	}
	controller, file := "memory", "memory.limit_in_bytes"
	if isV2() {
		controller, file = "", "memory.max"
	}
	if got := control(t, g, controller, file); got != "50331648" {
		t.Errorf("the limit is %s", got)
	}
	usage, err := g.Usage()
	if err != nil || usage.OOMKills != 0 || usage.CurrentMemoryBytes < held {
		t.Errorf("after all: %+v, %v", usage, err)
	}
}

// A device can be given to and taken from processes that run, together with the other
// limits and alone: then these stay as they are.
func TestChangeDevices(t *testing.T) {
	for name, set := range map[string]func(g *Group, devices []Device) error{
		"with the limits": func(g *Group, devices []Device) error {
			return New(g.Path(), Limits{DenyOtherDevices: true, Devices: devices}).Create()
		},
		"alone": (*Group).SetDevices,
	} {
		t.Run(name, func(t *testing.T) { changeDevices(t, set) })
	}
}

func changeDevices(t *testing.T, set func(g *Group, devices []Device) error) {
	null := Device{'c', 1, 3, "rw"}
	screen := Device{'c', 7, 3, "rw"}
	const most = 77
	g := create(t, Limits{DenyOtherDevices: true, Devices: []Device{null}, Pids: most})
	directory := t.TempDir()
	name := filepath.Join(directory, "screen")
	if err := unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(7, 3))); err != nil {
		t.Fatal(err)
	}
	// One shell tries all along: what it says is EPERM, or what the driver says.
	answer := filepath.Join(directory, "answer")
	start(t, g, `LC_ALL=C; export LC_ALL; while :; do
		if ( : < `+name+` ) 2>&1 | grep -q 'not permitted'; then echo denied; else echo open; fi > `+answer+`.new; mv `+answer+`.new `+answer+`; sleep 0.01; done`)
	says := func(want string) func() bool {
		return func() bool {
			text, err := os.ReadFile(answer)
			return err == nil && string(text) == want+"\n"
		}
	}
	eventually(t, "it is denied", says("denied"))
	for _, step := range []struct {
		devices []Device
		want    string
	}{{[]Device{null, screen}, "open"}, {[]Device{null}, "denied"}, {[]Device{screen, null}, "open"}} {
		if err := set(g, step.devices); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is "+step.want, says(step.want))
	}
	controller := "pids"
	if isV2() {
		controller = ""
	}
	if got := control(t, g, controller, "pids.max"); got != fmt.Sprint(most) {
		t.Errorf("the limit of processes is %s", got)
	}
}

// TestDevicesOfNoGroup: a group that does not exist is not made.
func TestDevicesOfNoGroup(t *testing.T) {
	g := New("/gleaner-cgroup-none", Limits{})
	if err := g.SetDevices(nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("it answers %v", err)
	}
	if _, err := Open(g.Path()); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is there: %v", err)
	}
}
