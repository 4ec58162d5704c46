package pid1

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// This file says what the steps of this node use now. Each task leads a session, in the
// kernel's sense, and what is in that is the task's.

// runningTask is a task that runs.
type runningTask struct {
	local, rank uint32
	pid         int
}

// listSteps answers step.Steps.
func (p *process1) listSteps() *step.StepList {
	used := usedBySessions()
	list := &step.StepList{}
	add := func(record step.Record, tasks []runningTask) {
		for _, t := range tasks {
			record.Pids = append(record.Pids, t.pid)
			record.LocalIDs, record.GlobalIDs = append(record.LocalIDs, t.local), append(record.GlobalIDs, t.rank)
			if use := used[t.pid]; use != nil {
				record.Add(t.rank, use)
			}
		}
		list.Steps = append(list.Steps, record)
	}
	p.steps.mu.Lock()
	var runs []running
	for r := range p.steps.running {
		runs = append(runs, r)
	}
	p.steps.mu.Unlock()
	for _, r := range runs {
		if record, tasks := r.use(); len(tasks) > 0 && len(list.Steps) < step.MaxSteps-1 {
			add(record, tasks)
		}
	}
	if record, tasks := p.batch.use(); len(tasks) > 0 {
		add(record, tasks)
	}
	slices.SortFunc(list.Steps, func(a, b step.Record) int { return cmp.Compare(a.Step, b.Step) })
	return list
}

// use implements running.
func (run *stepRun) use() (step.Record, []runningTask) {
	run.mu.Lock()
	defer run.mu.Unlock()
	var tasks []runningTask
	for i, t := range run.tasks {
		if !t.done {
			tasks = append(tasks, runningTask{uint32(i), t.rank, t.child.pid})
		}
	}
	return run.record, tasks
}

// use implements running.
func (s *session) use() (step.Record, []runningTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exited != nil {
		return step.Record{}, nil
	}
	return s.record, []runningTask{{pid: s.child.pid}}
}

func (b *batch) use() (step.Record, []runningTask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running == nil {
		return step.Record{}, nil
	}
	return step.Record{Step: step.BatchStep, Name: "batch", Tasks: 1, StartMS: b.startMS}, []runningTask{{pid: b.running.pid}}
}

// usedBySessions is what the processes of each session use together, by its leader.
func usedBySessions() map[int]*step.Use {
	used := map[int]*step.Use{}
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is sound
	for _, path := range paths {
		stat, err := os.ReadFile(path + "/stat")
		if err != nil {
			continue // it has ended
		}
		leader, use := parseStat(stat)
		if use == nil {
			continue
		}
		use.ReadBytes, use.WrittenBytes = readIO(path)
		if sum := used[leader]; sum != nil {
			sum.UserUS, sum.SystemUS = sum.UserUS+use.UserUS, sum.SystemUS+use.SystemUS
			sum.MemoryKiB, sum.VirtualKiB = sum.MemoryKiB+use.MemoryKiB, sum.VirtualKiB+use.VirtualKiB
			sum.ReadBytes, sum.WrittenBytes = sum.ReadBytes+use.ReadBytes, sum.WrittenBytes+use.WrittenBytes
			continue
		}
		used[leader] = use
	}
	return used
}

// tickUS is a unit of time in /proc/PID/stat, on all architectures of Linux that Go runs on.
const tickUS = 10_000

// parseStat reads /proc/PID/stat (proc(5)): the session, and what the process uses.
func parseStat(stat []byte) (session int, use *step.Use) {
	// After the name, which may hold anything: state, parent, group, session.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const last = 21
	if len(fields) <= last {
		return 0, nil
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64) // the kernel writes numbers
		return n
	}
	page := int64(os.Getpagesize())
	return int(number(3)), &step.Use{
		UserUS: (number(11) + number(13)) * tickUS, SystemUS: (number(12) + number(14)) * tickUS,
		VirtualKiB: number(20) >> 10, MemoryKiB: number(last) * page >> 10,
	}
}

// readIO reads what a process read from disks and wrote to them; the kernel does not tell
// of one that has changed its user.
func readIO(path string) (read, written int64) {
	data, _ := os.ReadFile(path + "/io")
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "read_bytes":
			read = n
		case "write_bytes":
			written = n
		}
	}
	return read, written
}
