package main

import (
	"bufio"
	"fmt"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// rows makes the lines that a job is shown as: one, or with --array one for
// each task that waits, or those of the tasks that were asked for by number.
func (run *queueRun) rows(job *pb.Job, view *view, add func(*jobRow) error) error {
	tasks, wanted := run.choice.match(job)
	if !wanted {
		return nil
	}
	if tasks == nil && run.each {
		tasks = job.GetWaitingTasks().GetRanges()
	}
	if tasks == nil {
		return add(&jobRow{job: job, view: view})
	}
	for _, span := range tasks {
		for task := uint64(span.First); task <= uint64(span.Last); task += uint64(max(span.Step, 1)) {
			index := uint32(task)
			if err := add(&jobRow{job: job, view: view, task: &index}); err != nil {
				return err
			}
		}
	}
	return nil
}

// queuePrinter prints rows, sorted while there are few.
type queuePrinter struct {
	out     *bufio.Writer
	run     *queueRun
	view    *view
	held    []*jobRow
	begun   bool // the header is out
	passing bool // too many rows to sort: each is printed as it comes
	line    []byte
	json    *jsonStream
}

func (run *queueRun) printer(out *bufio.Writer, view *view) *queuePrinter {
	p := &queuePrinter{out: out, run: run, view: view}
	if run.json != jsonNone {
		p.json = newJSONStream(out, "jobs", run.json)
		p.passing, p.begun = true, true // JSON keeps the order of numbers, and no header
	}
	return p
}

func (p *queuePrinter) add(row *jobRow) error {
	if p.passing {
		return p.print(row)
	}
	p.held = append(p.held, row)
	if len(p.held) <= sortedRows || p.run.forced {
		return nil
	}
	p.passing = true
	return p.printHeld()
}

// expect is told how many jobs there will be, 0 if nobody knows: each is at
// least one row.
func (p *queuePrinter) expect(jobs uint32) error {
	if jobs <= sortedRows || p.passing || p.run.forced {
		return nil
	}
	p.passing = true
	return p.printHeld()
}

// forget drops what was held back, and says whether that was all that came.
func (p *queuePrinter) forget() bool {
	p.held = nil
	return !p.passing
}

func (p *queuePrinter) printHeld() error {
	for _, row := range p.held {
		if err := p.print(row); err != nil {
			return err
		}
	}
	p.held = nil
	return nil
}

func (p *queuePrinter) print(row *jobRow) error {
	if p.json != nil {
		return output(p.json.add(p.run.json.job(row)))
	}
	p.begin()
	p.line = p.run.layout.Row(p.line[:0], row)
	_, err := p.out.Write(p.line)
	return output(err)
}

// begin prints the header, once.
func (p *queuePrinter) begin() {
	if !p.begun && p.run.header {
		_, _ = p.out.Write(p.run.layout.Header(nil)) // a bufio.Writer keeps its error for Flush
	}
	p.begun = true
}

// flushArrived shows what has been printed of a list that is still arriving.
func (p *queuePrinter) flushArrived() error {
	if !p.passing {
		return nil
	}
	return output(p.out.Flush())
}

// finish prints what was held back and ends the output.
func (p *queuePrinter) finish() error {
	if p.json != nil {
		if err := p.json.end(p.run.inv); err != nil {
			return output(err)
		}
		return output(p.out.Flush())
	}
	p.begin()
	slices.SortStableFunc(p.held, func(a, b *jobRow) int {
		if c := p.run.less(a, b); c != 0 {
			return c
		}
		return compareIDs(a, b)
	})
	if err := p.printHeld(); err != nil {
		return err
	}
	return output(p.out.Flush())
}

// output marks an error of writing as what it is.
func output(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errOutput, err)
}

// intersection of two sets of tasks; empty and nil differ: nil is no set.
func intersection(a, b []*pb.ArrayRange) []*pb.ArrayRange {
	common := spec.Intersect(a, b)
	if common == nil {
		common = []*pb.ArrayRange{}
	}
	return common
}
