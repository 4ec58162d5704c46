package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// clocksFile of an image is what the clocks since boot said in the tree.
const clocksFile = "clocks.json"

// clocks are the clocks since boot: on another node, or after a reboot, they say
// something else, and a program that waits for a moment of one would wait for days.
// CRIU takes care of them only where it has all rights over the host, so a restored
// tree gets a time namespace here (time_namespaces(7)) in which they continue.
type clocks struct {
	Monotonic time.Duration `json:"monotonic_ns"`
	Boottime  time.Duration `json:"boottime_ns"`
}

// clocksOf answers what the clocks say in the time namespace of a process.
func clocksOf(pid int) (clocks, error) {
	machine, err := machineClocks()
	if err != nil {
		return clocks{}, err
	}
	offsets, err := clockOffsets(strconv.Itoa(pid))
	return clocks{machine.Monotonic + offsets.Monotonic, machine.Boottime + offsets.Boottime}, err
}

// machineClocks answers what the clocks say outside all time namespaces.
func machineClocks() (clocks, error) {
	var monotonic, boottime unix.Timespec
	err := errors.Join(unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic), unix.ClockGettime(unix.CLOCK_BOOTTIME, &boottime))
	if err != nil {
		return clocks{}, fmt.Errorf("read the clocks since boot: %w", err)
	}
	own, err := clockOffsets("self")
	return clocks{time.Duration(monotonic.Nano()) - own.Monotonic, time.Duration(boottime.Nano()) - own.Boottime}, err
}

// clockOffsets reads by how much the clocks of a process are ahead of the machine's.
func clockOffsets(process string) (clocks, error) {
	path := filepath.Join("/proc", process, "timens_offsets")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return clocks{}, nil // a kernel without time namespaces
	}
	var o clocks
	for line := range strings.Lines(string(text)) {
		var clock string
		var seconds, nanoseconds int64
		if _, scanErr := fmt.Sscan(line, &clock, &seconds, &nanoseconds); scanErr != nil {
			return o, fmt.Errorf("read %s: %q: %w", path, line, scanErr)
		}
		switch offset := time.Duration(seconds)*time.Second + time.Duration(nanoseconds); clock {
		case "monotonic":
			o.Monotonic = offset
		case "boottime":
			o.Boottime = offset
		}
	}
	return o, err
}

// writeClocks adds to an image what the clocks say in the tree of a process.
func writeClocks(images string, pid int) error {
	c, err := clocksOf(pid)
	if err != nil {
		return err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(images, clocksFile), text, 0o600)
}

// inTime answers the words that start a command in a time namespace in which the
// clocks continue from where they were in an image. They are up to a second ahead:
// unshare(1) knows whole seconds, and no clock may go back.
func inTime(images string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(images, clocksFile))
	if err != nil {
		return nil, fmt.Errorf("read the clocks of the image: %w", err)
	}
	var were clocks
	if err := json.Unmarshal(text, &were); err != nil {
		return nil, fmt.Errorf("read the clocks of the image: %w", err)
	}
	machine, err := machineClocks()
	if err != nil {
		return nil, err
	}
	signed := unshareTakesSigns()
	return []string{
		"unshare", "--time", "--monotonic", offsetWord(offsetSeconds(were.Monotonic, machine.Monotonic), signed),
		"--boottime", offsetWord(offsetSeconds(were.Boottime, machine.Boottime), signed), "--",
	}, nil
}

// unshareTakesSigns says whether this machine's unshare(1) takes a number below zero as it
// is written. That of util-linux 2.39 (Ubuntu 24.04) takes it only as the number without a
// sign that has the same bits.
var unshareTakesSigns = sync.OnceValue(func() bool {
	return exec.Command("unshare", "--time", "--monotonic", "-1", "--", "true").Run() == nil
})

// LookAhead finds out now what Restore would ask this machine first. Call it beside
// something else that a restore waits for; it may run at the same time as Restore.
func LookAhead() { unshareTakesSigns() }

// offsetWord is a number of seconds as unshare(1) takes it.
func offsetWord(seconds int64, signed bool) string {
	if signed {
		return strconv.FormatInt(seconds, 10)
	}
	return strconv.FormatUint(uint64(seconds), 10)
}

// offsetSeconds is how many seconds a clock must be ahead of the machine's to say
// what it said, or a little more.
func offsetSeconds(said, says time.Duration) int64 {
	ahead := said - says
	seconds := ahead / time.Second
	if ahead > seconds*time.Second {
		seconds++
	}
	return int64(seconds)
}

// inTimeOf answers the words that start a command in the time namespace of a process,
// unless that is this process's own. CRIU saves a tree from there: it enters a tree's
// user namespace before its other namespaces, and the time namespace of a restored tree
// does not belong to that user namespace.
func inTimeOf(pid int) []string {
	theirs := fmt.Sprintf("/proc/%d/ns/time", pid)
	its, err := os.Readlink(theirs)
	own, ownErr := os.Readlink("/proc/self/ns/time")
	if err != nil || ownErr != nil || its == own {
		return nil // what it cannot enter, CRIU says
	}
	return []string{"nsenter", "--time=" + theirs, "--"}
}
