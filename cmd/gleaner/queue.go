package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// sortedRows is how many rows gqueue holds back to sort them by partition,
// state and priority. A longer queue is printed as it arrives, by job number,
// so that its first line comes at once; --sort forces the order.
const sortedRows = 10_000

// queueRun is one call of gqueue.
type queueRun struct {
	inv    *option.Invocation
	client *client
	choice *jobChoice
	layout *format.Layout[*jobRow]
	less   func(a, b *jobRow) int
	forced bool // --sort was given
	json   jsonShape
	header bool
	dated  bool // a line with the time above the header
	each   bool // a line for each waiting task
	everyS int  // --iterate; 0 = once
}

func runQueue(inv *option.Invocation) error {
	fromEnvironment, err := inv.Command.FromEnvironment(inv.Lookup)
	if err != nil {
		return err
	}
	if inv.Given("format") || inv.Given("Format") {
		delete(fromEnvironment, "format")
		delete(fromEnvironment, "Format")
	}
	inv.Values = inv.Values.Over(fromEnvironment)
	run, err := newQueueRun(inv)
	if err != nil {
		return err
	}
	if run.client, err = connect(inv); err != nil {
		return err
	}
	defer run.client.Close()
	return repeat(inv, run.everyS, run.once)
}

func newQueueRun(inv *option.Invocation) (*queueRun, error) {
	if len(inv.Operands) > 0 && !inv.Given("jobs") {
		hint := ""
		if _, err := spec.ParseJobTargets(inv.Operands[0]); err == nil {
			hint = "\nA job is chosen with --jobs=" + inv.Operands[0]
		}
		return nil, inv.Fail("Unrecognized option: %s%s", inv.Operands[0], hint)
	}
	run := &queueRun{
		inv: inv, header: !inv.Given("noheader"), each: inv.Given("array"),
		dated: inv.Given("iterate") || inv.Given("long"),
	}
	var err error
	if run.json, err = jsonShapeOf(inv); err != nil {
		return nil, err
	}
	if run.everyS, err = iterateSeconds(inv); err != nil {
		return nil, err
	}
	if run.choice, err = chooseJobs(inv); err != nil {
		return nil, err
	}
	if run.layout, err = queueLayout(inv); err != nil {
		return nil, err
	}
	order := queueSort
	if inv.Given("start") {
		order = "S"
	}
	run.forced = inv.Given("sort") || inv.Given("start")
	if run.less, err = jobTable.ParseSort(cmp.Or(inv.Text("sort"), order)); err != nil {
		return nil, inv.Fail("Invalid sort specification: %w", err)
	}
	return run, nil
}

// queueLayout chooses the columns.
func queueLayout(inv *option.Invocation) (*format.Layout[*jobRow], error) {
	if inv.Given("format") && inv.Given("Format") {
		return nil, inv.Fail("-o (--format) and -O (--Format) cannot be used together")
	}
	if inv.Given("Format") {
		layout, err := jobTable.ParseLong(inv.Text("Format"))
		return layout, formatError(inv, "job", err)
	}
	spec := queueFormat
	switch {
	case inv.Given("format"):
		spec = inv.Text("format")
	case inv.Given("start"):
		spec = queueStartFormat
	case inv.Given("long"):
		spec = queueLongFormat
	}
	layout, err := jobTable.ParseShort(spec)
	return layout, formatError(inv, "job", err)
}

func formatError(inv *option.Invocation, kind string, err error) error {
	if err == nil {
		return nil
	}
	return inv.Fail("Invalid %s format specification: %w\nWhat each field shows is in its manual page: gleaner man %s | man -l -", kind, err, inv.Command.Name)
}

// iterateSeconds reads --iterate.
func iterateSeconds(inv *option.Invocation) (int, error) {
	if !inv.Given("iterate") {
		return 0, nil
	}
	seconds, err := strconv.Atoi(inv.Text("iterate"))
	if err != nil || seconds <= 0 || seconds > 1<<20 {
		return 0, inv.Fail("--iterate=%s: type a number of seconds, at least 1", inv.Text("iterate"))
	}
	return seconds, nil
}

// repeat calls once, or every so many seconds until the user interrupts. Then
// an error is shown and the next round tried: who watches a queue wants it
// back when the controller is.
func repeat(inv *option.Invocation, everyS int, once func(context.Context, time.Time) error) error {
	for {
		err := once(inv.Context, clock())
		if everyS == 0 || errors.Is(err, errOutput) {
			return err
		}
		if inv.Context.Err() != nil {
			return nil // how a watch ends
		}
		if text, _ := option.Report(inv.Command.Program(), err); text != "" {
			fmt.Fprint(inv.Stderr, text)
		}
		select {
		case <-inv.Context.Done():
			return nil
		case <-time.After(time.Duration(everyS) * time.Second):
		}
		if _, err := fmt.Fprintln(inv.Stdout); err != nil {
			return err
		}
	}
}

// errOutput is returned when standard output cannot be written: nobody reads.
var errOutput = errors.New("cannot write the output")

// once lists the jobs and prints them.
func (run *queueRun) once(ctx context.Context, now time.Time) error {
	view := newView(run.inv.Getenv, now)
	view.wholeUnits = run.inv.Given("noconvert")
	out := bufio.NewWriterSize(run.inv.Stdout, 64<<10)
	printer := run.printer(out, view)
	if run.dated && run.json == jsonNone {
		fmt.Fprintln(out, now.Format(dateLine))
	}
	found := 0
	anew := func() bool { found = 0; return printer.forget() }
	err := list(ctx, run.client, run.client.ListJobs, &pb.ListJobsRequest{Filter: run.choice.filter}, anew,
		func(answer *pb.ListJobsResponse) error {
			if !run.choice.drops() {
				if err := printer.expect(answer.Total); err != nil {
					return err
				}
			}
			for _, job := range answer.Jobs {
				if err := run.rows(job, view, printer.add); err != nil {
					return err
				}
			}
			found += len(answer.Jobs)
			return printer.flushArrived()
		})
	if err != nil && !errors.Is(err, errOutput) {
		return loadError(run.inv, loadJobs, err)
	}
	if err == nil && found == 0 {
		for _, name := range run.choice.strangers { // no error, as in squeue
			fmt.Fprintf(run.inv.Stderr, "%s: error: Invalid user: %s\n", run.inv.Command.Program(), name)
		}
		err = run.missing(ctx)
	}
	if err != nil {
		return err
	}
	return printer.finish()
}

// missing fails if the one job that was asked for does not exist, as squeue
// does; of several ids the unknown ones are passed over.
func (run *queueRun) missing(ctx context.Context) error {
	if len(run.choice.targets) != 1 {
		return nil
	}
	known := false
	anew := func() bool { known = false; return true }
	request := &pb.ListJobsRequest{Filter: &pb.JobFilter{AllStates: true, Ids: []*pb.JobId{{Job: run.choice.targets[0].Job}}}}
	err := list(ctx, run.client, run.client.ListJobs, request, anew, func(answer *pb.ListJobsResponse) error {
		known = known || len(answer.Jobs) > 0
		return nil
	})
	if err != nil {
		return loadError(run.inv, loadJobs, err)
	}
	if !known {
		fmt.Fprintf(run.inv.Stderr, "%s: Invalid job id specified\n", loadJobs)
		return option.Exit(1)
	}
	return nil
}

// dateLine is the line above the header of --long and --iterate.
const dateLine = "Mon Jan _2 15:04:05 2006"

// Variables, so that tests can be somebody, somewhen.
var (
	uid   = os.Getuid // who asks, for --me
	clock = time.Now
)
