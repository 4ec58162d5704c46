package remove

import (
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// Survivors is an error that names the processes of a group that do not die,
// or nil when there is none.
func Survivors(group *cgroup.Group) error {
	pids, err := group.Procs()
	if err != nil || len(pids) == 0 {
		return nil
	}
	const named = 3
	var names []string
	for _, pid := range pids[:min(len(pids), named)] {
		names = append(names, DescribeProcess(pid))
	}
	if more := len(pids) - named; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("the kernel does not let go of %s: see whether a device or a file server that it waits for does not answer", strings.Join(names, ", "))
}

// DescribeProcess is like "process 4711 (python, state D in nfs_wait_bit)".
func DescribeProcess(pid int) string {
	text := fmt.Sprintf("process %d", pid)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return text
	}
	// The name is in brackets and may hold brackets itself.
	line := string(stat)
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open || end+2 >= len(line) {
		return text
	}
	text += " (" + printable(line[open+1:end]) + ", state " + line[end+2:end+3]
	if where, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid)); err == nil && len(where) > 1 {
		text += " in " + printable(string(where))
	}
	return text + ")"
}

// printable drops what a process's name can hold and a terminal must not get.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, name)
}
