// Package procstatus reads /proc/PID/status, see proc_pid_status(5).
//
// Contract: Read answers the lines of a status file by their keys. Innermost answers the
// number by which a process knows itself. An error of a process that has ended is
// fs.ErrNotExist or ESRCH.
package procstatus

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Dir is where the kernel tells of a process.
func Dir(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// Read reads the status of the process, or thread, of a directory of proc(5).
func Read(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return nil, fmt.Errorf("look at a process: %w", err)
	}
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	return status, nil
}

// Numbers are those that a process has in the namespaces of processes that it is in, from
// the reader's to its own.
func Numbers(status map[string]string) ([]int, error) {
	words := strings.Fields(status["NSpid"])
	if len(words) == 0 {
		return nil, fmt.Errorf("process %q has no number in its namespace", status["Pid"])
	}
	numbers := make([]int, len(words))
	for i, word := range words {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("the numbers of process %q: %w", status["Pid"], err)
		}
		numbers[i] = number
	}
	return numbers, nil
}

// Innermost is the number that a process has in its own namespace.
func Innermost(dir string) (int, error) {
	status, err := Read(dir)
	if err != nil {
		return 0, err
	}
	numbers, err := Numbers(status)
	if err != nil {
		return 0, err
	}
	return numbers[len(numbers)-1], nil
}

// Stopped says whether somebody has stopped a process (SIGSTOP). One that has ended is not.
func Stopped(pid int) bool {
	status, err := Read(Dir(pid))
	return err == nil && status["State"] == "T (stopped)"
}
