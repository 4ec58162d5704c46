// Package trace reads recorded workloads: the Standard Workload Format of the Parallel
// Workloads Archive, and CSV.
//
// Contract: Read takes any bytes and never panics. A line that is not what the format
// says is refused with its number and the reason; nothing of such a trace is used. Jobs
// come in the order of their submission, those of one second in the order of their
// numbers. The package reads what it is given and opens nothing.
package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Job is one recorded job. Times are seconds.
type Job struct {
	ID         uint32
	SubmitS    int64
	RunS       int64 // at least 1, at most EstimateS
	EstimateS  int64 // its time limit, at least 1
	Processors uint32
	User       string // "" = not recorded
	Account    string
}

// Bounds of a trace. A time in seconds stays far below what milliseconds can hold.
const (
	MaxJobs = 5_000_000
	maxLine = 64 << 10
	maxS    = 1 << 42
)

// LineError is about one line.
type LineError struct {
	Line   int // from 1
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// ErrEmpty is returned for a trace without jobs.
var ErrEmpty = errors.New("there are no jobs in it")

// Read reads a trace. It is CSV if its first line has the column job_id, and
// SWF otherwise.
func Read(from io.Reader) ([]Job, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	var jobs []Job
	parse := swfLine
	seen := map[uint32]int{}
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if number == 1 {
			if columns, is, err := csvHeader(line); err != nil {
				return nil, &LineError{number, err.Error()}
			} else if is {
				parse = columns.line
				continue
			}
		}
		if len(line) == 0 || line[0] == ';' {
			continue
		}
		job, err := parse(line)
		if err != nil {
			return nil, &LineError{number, err.Error()}
		}
		if before, twice := seen[job.ID]; twice {
			return nil, &LineError{number, fmt.Sprintf("job %d is on line %d already; each job has one line", job.ID, before)}
		}
		if len(jobs) == MaxJobs {
			return nil, &LineError{number, fmt.Sprintf("there are more than %d jobs; cut the trace", MaxJobs)}
		}
		seen[job.ID] = number
		jobs = append(jobs, job)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, &LineError{number + 1, fmt.Sprintf("it has more than %d bytes; is this a trace?", maxLine)}
	} else if err != nil {
		return nil, fmt.Errorf("after line %d: %w", number, err)
	}
	if len(jobs) == 0 {
		return nil, ErrEmpty
	}
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Or(cmp.Compare(a.SubmitS, b.SubmitS), cmp.Compare(a.ID, b.ID)) })
	return jobs, nil
}

// normal makes of recorded numbers what a scheduler would have seen: a job does not run
// longer than it asked for, and a job that never ran is one of a second.
func normal(id, submit, run, requested, processors int64) (Job, error) {
	switch {
	case id < 0 || id > 1<<31:
		return Job{}, fmt.Errorf("%d is no job number; they go from 0 to %d", id, 1<<31)
	case submit < 0 || submit > maxS:
		return Job{}, fmt.Errorf("the job is submitted at %d; give seconds from 0 on", submit)
	case run > maxS || requested > maxS:
		return Job{}, fmt.Errorf("a time of %d s is too long", max(run, requested))
	case processors > 1<<31:
		return Job{}, fmt.Errorf("%d processors are too many", processors)
	}
	job := Job{ID: uint32(id), SubmitS: submit, RunS: max(run, 1), EstimateS: max(requested, run, 1), Processors: uint32(max(processors, 1))}
	if requested > 0 {
		job.RunS = max(min(run, requested), 1)
	}
	if run <= 0 || processors <= 0 {
		job.RunS, job.EstimateS = 1, 1
	}
	return job, nil
}
