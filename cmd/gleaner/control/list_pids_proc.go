package control

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file finds the processes of a job in proc(5). On the job's node they are in the
// control group that is named after its allocation, and the kernel tells their numbers in
// both namespaces; inside the job all that are seen are the job's.

// procDir is where proc(5) is mounted. A variable for tests.
var procDir = "/proc"

// processTable has the processes of a job that are seen from here.
type processTable struct {
	byInner  map[int]int   // by their numbers inside the job
	children map[int][]int // by the numbers that they have here
}

func (l *pidList) processes(job *pb.Job) *processTable {
	table := &processTable{byInner: map[int]int{}, children: map[int][]int{}}
	inside := l.inv.Getenv("GLEANER_STEP_SOCKET") != "" && l.inv.Getenv("SLURMD_NODENAME") == l.node &&
		l.inv.Getenv("SLURM_JOB_ID") == strconv.FormatUint(uint64(job.GetId().GetJob()), 10)
	group := fmt.Sprintf("%d.%d", job.GetId().GetJob(), job.GetEpoch())
	dirs, _ := filepath.Glob(filepath.Join(procDir, "[0-9]*")) // the pattern is sound
	for _, dir := range dirs {
		if !inside && !inGroup(dir, l.node, group) {
			continue
		}
		pid, parent, inner := processNumbers(dir)
		if pid == 0 {
			continue // it has ended
		}
		table.byInner[inner] = pid
		table.children[parent] = append(table.children[parent], pid)
	}
	return table
}

// below are the processes that one has started, and those that they have.
func (t *processTable) below(pid int) []int {
	found := t.children[pid]
	delete(t.children, pid) // a number that is used again makes no circle
	for _, child := range slices.Clone(found) {
		found = append(found, t.below(child)...)
	}
	return found
}

// inGroup reports whether a process is in the group of an allocation on a node. By default
// the group above has the name of the node: a machine may have several.
func inGroup(dir, node, group string) bool {
	lines, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(lines) {
		if strings.Contains(strings.TrimSpace(string(line))+"/", "/"+node+"/"+group+"/") {
			return true
		}
	}
	return false
}

// processNumbers are the number of a process as seen from here, that of its parent, and its
// number in the innermost namespace; zeros = it has ended.
func processNumbers(dir string) (pid, parent, inner int) {
	text, _ := os.ReadFile(filepath.Join(dir, "status"))
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		numbers := strings.Fields(value)
		if len(numbers) == 0 {
			continue
		}
		switch name {
		case "Pid":
			pid, _ = strconv.Atoi(numbers[0])
		case "PPid":
			parent, _ = strconv.Atoi(numbers[0])
		case "NSpid":
			inner, _ = strconv.Atoi(numbers[len(numbers)-1])
		}
	}
	return pid, parent, inner
}
