// Package trace reads recorded workloads: the Standard Workload Format of the Parallel
// Workloads Archive, and CSV.
//
// Contract: Read takes any bytes and never panics. A line that is not what the format
// says is refused with its number and the reason, and so are the next few; nothing of
// such a trace is used. Jobs
// come in the order of their submission, those of one second in the order of their
// numbers. The package reads what it is given and opens nothing.
package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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
	Asks       *Ask  // nil = the trace has only its processors. Jobs share them.
	LeastS     int64 // the least limit with which it may start, at most EstimateS; 0 = that
}

// Ask is what a job asked for.
type Ask struct {
	Partition     string
	Model         string // of its GPUs; "" = any
	Nodes         uint32
	CPUsPerNode   uint32
	GPUsPerNode   uint32
	MemoryPerNode uint64 // bytes
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

// LineErrors are about the first lines that are wrong.
type LineErrors []LineError

// maxWrong bounds how many wrong lines are told of; reading stops there.
const maxWrong = 10

func (e LineErrors) full() bool { return len(e) >= maxWrong }

func (e LineErrors) Error() string {
	words := make([]string, len(e), len(e)+1)
	for i := range e {
		words[i] = e[i].Error()
	}
	if e.full() {
		words = append(words, "there may be more: reading stopped here")
	}
	return strings.Join(words, "\n")
}

// ErrEmpty is returned for a trace without jobs.
var ErrEmpty = errors.New("there are no jobs in it")

// Read reads a trace. It is CSV if its first line has the column job_id, and
// SWF otherwise.
func Read(from io.Reader) ([]Job, error) {
	lines := newLines(from)
	var jobs []Job
	parse := swfLine
	seen, words := map[uint32]int{}, interned{}
	for lines.scan() {
		if lines.number == 1 {
			if columns, is, err := csvHeader(lines.text); err != nil {
				return nil, &LineError{1, err.Error()}
			} else if is {
				parse = columns.line
				continue
			}
		}
		if len(lines.text) == 0 || lines.text[0] == ';' {
			continue
		}
		job, err := parse(lines.text)
		if err != nil && lines.number == 1 {
			err = fmt.Errorf("%w; the first line of CSV names its columns, job_id among them, with commas between", err)
		}
		if before, twice := seen[job.ID]; err == nil && twice {
			err = fmt.Errorf("job %d is on line %d already; each job has one line", job.ID, before)
		}
		if lines.note(err) {
			continue
		}
		if len(jobs) == MaxJobs {
			return nil, &LineError{lines.number, fmt.Sprintf("there are more than %d jobs; cut the trace", MaxJobs)}
		}
		seen[job.ID] = lines.number
		job.User, job.Account = words.of(job.User), words.of(job.Account)
		jobs = append(jobs, job)
	}
	if err := lines.err(); err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, ErrEmpty
	}
	Sort(jobs)
	return jobs, nil
}

// Sort puts jobs in the order of their submission, those of one second in that of their
// numbers.
func Sort(jobs []Job) {
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Or(cmp.Compare(a.SubmitS, b.SubmitS), cmp.Compare(a.ID, b.ID)) })
}

// interned are words that are kept once each, and do not keep the lines that they come
// from.
type interned map[string]string

func (i interned) of(word string) string {
	kept, known := i[word]
	if !known {
		kept = strings.Clone(word)
		i[kept] = kept
	}
	return kept
}

// roundLimits are time limits that people ask for, in seconds.
var roundLimits = []int64{600, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 2 * 24 * 3600, 4 * 24 * 3600, 7 * 24 * 3600, 14 * 24 * 3600, 30 * 24 * 3600, 60 * 24 * 3600}

// RoundLimits gives each job the next of some round time limits, as users would ask for,
// for a trace that has none of its own.
func RoundLimits(jobs []Job) {
	for i := range jobs {
		at, _ := slices.BinarySearch(roundLimits, jobs[i].EstimateS)
		if at < len(roundLimits) {
			jobs[i].EstimateS = roundLimits[at]
		}
	}
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
