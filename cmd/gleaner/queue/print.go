package queue

import (
	"bufio"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// rows makes the lines that a job is shown as: one, or with --array one for
// each task that waits, or those of the tasks that were asked for by number.
func (run *queueRun) rows(job *pb.Job, view *show.View, add func(*show.JobRow) error) error {
	tasks, wanted := run.choice.match(job)
	if !wanted {
		return nil
	}
	if tasks == nil && run.each {
		tasks = job.GetWaitingTasks().GetRanges()
	}
	for _, one := range run.inPartitions(job) {
		if err := show.JobRows(one, tasks, view, add); err != nil {
			return err
		}
	}
	return nil
}

// inPartitions is the job as it is shown: with --priority a waiting one once in each of
// its partitions.
func (run *queueRun) inPartitions(job *pb.Job) []*pb.Job {
	names := strings.Split(job.GetPartition(), ",")
	if !run.inv.Given("priority") || len(names) == 1 || !show.Pending(job) {
		return []*pb.Job{job}
	}
	var jobs []*pb.Job
	for _, name := range names {
		one := proto.CloneOf(job)
		one.Partition = name
		jobs = append(jobs, one)
	}
	return jobs
}

// queuePrinter prints rows, sorted while there are few.
type queuePrinter struct {
	out     *bufio.Writer
	run     *queueRun
	view    *show.View
	held    []*show.JobRow
	begun   bool // the header is out
	passing bool // too many rows to sort: each is printed as it comes
	line    []byte
	json    *show.JSONStream
}

func (run *queueRun) printer(out *bufio.Writer, view *show.View) *queuePrinter {
	p := &queuePrinter{out: out, run: run, view: view}
	if run.json != show.JSONNone {
		p.json = show.NewJSONStream(out, "jobs", run.json)
		p.passing, p.begun = true, true // JSON keeps the order of numbers, and no header
	}
	return p
}

func (p *queuePrinter) add(row *show.JobRow) error {
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

// forget drops what was held back, and reports whether that was all that came.
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

func (p *queuePrinter) print(row *show.JobRow) error {
	if p.json != nil {
		return console.Output(p.json.Add(p.run.json.Job(row)))
	}
	p.begin()
	p.line = p.run.layout.Row(p.line[:0], row)
	_, err := p.out.Write(p.line)
	return console.Output(err)
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
	return console.Output(p.out.Flush())
}

// finish prints what was held back and ends the output.
func (p *queuePrinter) finish() error {
	if p.json != nil {
		if err := p.json.End(p.run.inv); err != nil {
			return console.Output(err)
		}
		return console.Output(p.out.Flush())
	}
	p.begin()
	slices.SortStableFunc(p.held, func(a, b *show.JobRow) int {
		if c := p.run.less(a, b); c != 0 {
			return c
		}
		return show.CompareIDs(a, b)
	})
	if err := p.printHeld(); err != nil {
		return err
	}
	return console.Output(p.out.Flush())
}
