// Package queue is gqueue, Slurm's squeue: it chooses jobs and columns, and prints
// them once or again and again.
//
// A queue that is short enough is sorted; a longer one is printed as it arrives, so
// that memory stays bounded. The columns themselves, and jobs as JSON, are package
// show.
package queue

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
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
	client *client.Client
	choice *jobChoice
	layout *format.Layout[*show.JobRow]
	less   func(a, b *show.JobRow) int
	forced bool // --sort was given
	json   show.JSONShape
	header bool
	dated  bool // a line with the time above the header
	each   bool // a line for each waiting task
	everyS int  // --iterate; 0 = once
	// cluster is its name, if --clusters was given: a line above the header.
	cluster string
}

func runQueue(inv *option.Invocation) error {
	if err := console.FillFromEnvironment(inv); err != nil {
		return err
	}
	if inv.Given("why") {
		return runWhy(inv)
	}
	if inv.Given("steps") {
		return runSteps(inv)
	}
	run, err := newQueueRun(inv)
	if err != nil {
		return err
	}
	if run.client, err = client.Connect(inv); err != nil {
		return err
	}
	defer run.client.Close()
	if run.cluster, err = run.client.Cluster(inv.Context, inv.Values); err != nil {
		return err
	}
	return console.Repeat(inv, run.everyS, run.once)
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
	if run.json, err = show.JSONShapeOf(inv); err != nil {
		return nil, err
	}
	if run.everyS, err = console.IterateSeconds(inv); err != nil {
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
	if run.less, err = show.JobTable.ParseSort(cmp.Or(inv.Text("sort"), order)); err != nil {
		return nil, inv.Fail("Invalid sort specification: %w", err)
	}
	return run, nil
}

// queueLayout chooses the columns.
func queueLayout(inv *option.Invocation) (*format.Layout[*show.JobRow], error) {
	if inv.Given("format") && inv.Given("Format") {
		return nil, inv.Fail("-o (--format) and -O (--Format) cannot be used together")
	}
	if inv.Given("Format") {
		layout, err := show.JobTable.ParseLong(inv.Text("Format"))
		return layout, console.FormatError(inv, "job", err)
	}
	spec := queueFormat
	switch {
	case inv.Given("format"):
		spec = inv.Text("format")
	case inv.Given("only-job-state"):
		spec = queueStateFormat
	case inv.Given("start"):
		spec = queueStartFormat
	case inv.Given("long"):
		spec = queueLongFormat
	}
	layout, err := show.JobTable.ParseShort(spec)
	return layout, console.FormatError(inv, "job", err)
}

// once lists the jobs and prints them.
func (run *queueRun) once(ctx context.Context, now time.Time) error {
	view := show.NewView(run.inv.Getenv, now)
	view.WholeUnits = run.inv.Given("noconvert")
	out := bufio.NewWriterSize(run.inv.Stdout, 64<<10)
	printer := run.printer(out, view)
	if run.dated && run.json == show.JSONNone {
		fmt.Fprintln(out, now.Format(console.DateLine))
	}
	if run.cluster != "" && run.header && run.json == show.JSONNone {
		fmt.Fprintf(out, "CLUSTER: %s\n", run.cluster)
	}
	found := 0
	restart := func() bool { found = 0; return printer.forget() }
	err := client.List(ctx, run.client, run.client.ListJobs, &pb.ListJobsRequest{Filter: run.choice.filter}, restart,
		func(answer *pb.ListJobsResponse) error {
			if run.json != show.JSONNone {
				view.Cluster = run.inv.ClusterName()
			}
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
	if err != nil && !errors.Is(err, console.ErrOutput) {
		return client.LoadError(run.inv, client.LoadJobs, err)
	}
	if err == nil && found == 0 {
		if err := run.unknownNodes(ctx); err != nil {
			return err
		}
		console.TellStrangers(run.inv, run.inv.List("user"))
		err = run.missing(ctx)
	}
	if err != nil {
		return err
	}
	return printer.finish()
}

// unknownNodes fails if --nodelist names a node that there is not, as squeue does.
func (run *queueRun) unknownNodes(ctx context.Context) error {
	wanted := run.choice.filter.GetNodes()
	if len(wanted) == 0 {
		return nil
	}
	known := map[string]bool{}
	restart := func() bool { clear(known); return true }
	err := client.List(ctx, run.client, run.client.ListNodes, &pb.ListNodesRequest{}, restart, func(answer *pb.ListNodesResponse) error {
		for _, node := range answer.GetNodes() {
			known[node.GetName()] = true
		}
		return nil
	})
	if err != nil {
		return client.LoadError(run.inv, client.LoadJobs, err)
	}
	for _, name := range wanted {
		if !known[name] {
			return run.inv.Fail("Invalid node name %s", name)
		}
	}
	return nil
}

// missing fails if the one job that was asked for does not exist, as squeue
// does; of several ids the unknown ones are passed over.
func (run *queueRun) missing(ctx context.Context) error {
	if len(run.choice.targets) != 1 {
		return nil
	}
	known := false
	restart := func() bool { known = false; return true }
	request := &pb.ListJobsRequest{Filter: &pb.JobFilter{AllStates: true, Ids: []*pb.JobId{{Job: run.choice.targets[0].Job}}}}
	err := client.List(ctx, run.client, run.client.ListJobs, request, restart, func(answer *pb.ListJobsResponse) error {
		known = known || len(answer.Jobs) > 0
		return nil
	})
	if err != nil {
		return client.LoadError(run.inv, client.LoadJobs, err)
	}
	if !known {
		fmt.Fprintf(run.inv.Stderr, "%s: Invalid job id specified\n", client.LoadJobs)
		return option.Exit(1)
	}
	return nil
}
