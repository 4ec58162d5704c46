package queue

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/steps"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// stepRun is one call of gqueue --steps.
type stepRun struct {
	inv     *option.Invocation
	client  *client.Client
	choice  *jobChoice
	targets steps.Targets
	layout  *format.Layout[*steps.Row]
	less    func(a, b *steps.Row) int // nil = by partition, job and step
	json    show.JSONShape
	cluster string // as in queueRun
}

func runSteps(inv *option.Invocation) error {
	run, err := newStepRun(inv)
	if err != nil {
		return err
	}
	everyS, err := console.IterateSeconds(inv)
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
	return console.Repeat(inv, everyS, run.once)
}

func newStepRun(inv *option.Invocation) (*stepRun, error) {
	run := &stepRun{inv: inv}
	var err error
	if run.json, err = show.JSONShapeOf(inv); err != nil {
		return nil, err
	}
	words := inv.All("steps")
	if !inv.Given("jobs") {
		// The argument is optional, so that of "-s 12.0" is an operand.
		words = append(slices.Clone(words), inv.Operands...)
	}
	for _, word := range words {
		if strings.TrimSpace(word) == "" {
			continue // --steps alone asks for all
		}
		targets, err := steps.Parse(word)
		if err != nil {
			return nil, err
		}
		run.targets = append(run.targets, targets...)
	}
	if run.choice, err = chooseJobs(inv); err != nil {
		return nil, err
	}
	run.choice.filter.Ids = append(run.choice.filter.Ids, run.targets.Jobs()...)
	steps.Own(run.choice.filter)
	if inv.Given("sort") {
		if run.less, err = steps.Table.ParseSort(inv.Text("sort")); err != nil {
			return nil, inv.Fail("Invalid sort specification: %w", err)
		}
	}
	switch {
	case inv.Given("format") && inv.Given("Format"):
		err = inv.Fail("-o (--format) and -O (--Format) cannot be used together")
	case inv.Given("Format"):
		run.layout, err = steps.Table.ParseLong(inv.Text("Format"))
		err = console.FormatError(inv, "step", err)
	case inv.Given("format"):
		run.layout, err = steps.Table.ParseShort(inv.Text("format"))
		err = console.FormatError(inv, "step", err)
	default:
		run.layout, err = steps.Table.ParseShort(steps.Format)
	}
	return run, err
}

// once asks for the steps and prints them.
func (run *stepRun) once(ctx context.Context, now time.Time) error {
	view := show.NewView(run.inv.Getenv, now)
	var jobs []*pb.Job
	restart := func() bool { jobs = nil; return true }
	err := client.List(ctx, run.client, run.client.ListJobs, &pb.ListJobsRequest{Filter: run.choice.filter}, restart, func(answer *pb.ListJobsResponse) error {
		for _, job := range answer.GetJobs() {
			if _, wanted := run.choice.match(job); wanted {
				jobs = append(jobs, job)
			}
		}
		return nil
	})
	if err != nil {
		return client.LoadError(run.inv, client.LoadJobs, err)
	}
	rows, err := steps.Ask(ctx, run.client, jobs, run.targets, view, func(text string) {
		fmt.Fprintf(run.inv.Stderr, "%s: %s\n", run.inv.Command.Program(), text)
	})
	if err != nil {
		return option.Fail(1, "%w", err)
	}
	if run.less != nil {
		slices.SortStableFunc(rows, run.less)
	}
	if run.json != show.JSONNone {
		view.Cluster = run.inv.ClusterName()
		return run.writeJSON(rows)
	}
	return run.print(rows, now)
}

func (run *stepRun) writeJSON(rows []*steps.Row) error {
	records := []any{}
	for _, row := range rows {
		records = append(records, row.JSON(run.json))
	}
	return console.Output(show.WriteJSON(run.inv, run.json, "steps", records))
}

func (run *stepRun) print(rows []*steps.Row, now time.Time) error {
	out := bufio.NewWriter(run.inv.Stdout)
	if run.inv.Given("iterate") || run.inv.Given("long") {
		fmt.Fprintln(out, now.Format(console.DateLine))
	}
	if run.cluster != "" && !run.inv.Given("noheader") {
		fmt.Fprintf(out, "CLUSTER: %s\n", run.cluster)
	}
	run.layout.Fit(rows)
	var line []byte
	if !run.inv.Given("noheader") {
		line = run.layout.Header(line[:0])
		_, _ = out.Write(line) // Flush has the error
	}
	for _, row := range rows {
		line = run.layout.Row(line[:0], row)
		_, _ = out.Write(line)
	}
	return console.Output(out.Flush())
}
