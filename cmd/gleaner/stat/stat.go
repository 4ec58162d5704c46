// Package stat is gstat, Slurm's sstat: what the steps of a running job use now, as the
// nodes of the job say.
package stat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/table"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/safejson"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxJobs bounds the jobs that one call asks about: each node of each is asked.
const maxJobs = 256

func runStat(inv *option.Invocation) error {
	if inv.Given("helpformat") {
		return table.PrintNames(inv, columns(), 19)
	}
	format := defaultFormat
	if inv.Given("pidformat") {
		format = pidFormat
	}
	printer, err := table.New(inv, columns(), format)
	if err != nil {
		return err
	}
	names := inv.List("jobs")
	for _, operand := range inv.Operands {
		names = append(names, strings.Split(operand, ",")...)
	}
	if len(names) == 0 || len(names) > maxJobs {
		return inv.Fail("name 1 to %d jobs, as in %s -j 12", maxJobs, inv.Command.Program())
	}
	controllers, err := past.Connect(inv)
	if err != nil {
		return err
	}
	defer controllers.Close()
	var rows []row
	failed := false
	for _, name := range names {
		found, err := stepsOf(inv, controllers, name)
		if err != nil {
			failed = true
			fmt.Fprintf(inv.Stderr, "%s: error: %s\n", inv.Command.Program(), client.Describe(err))
		}
		rows = append(rows, found...)
	}
	if inv.Given("json") {
		err = writeJSON(inv, rows)
	} else {
		printer.Header()
		for _, r := range rows {
			printer.Line(r)
		}
		err = printer.Flush()
	}
	if err == nil && failed {
		err = option.Exit(1)
	}
	return err
}

// stepsOf are the steps that JOB or JOB.STEP means.
func stepsOf(inv *option.Invocation, controllers *client.Client, text string) ([]row, error) {
	name, wanted, one := strings.Cut(text, ".")
	targets, err := spec.ParseJobTargets(name)
	if _, bad := strconv.ParseUint(wanted, 10, 32); err != nil || len(targets) != 1 || one && bad != nil && wanted != past.Batch {
		return nil, fmt.Errorf("invalid job id specified: %.40q is not a job or a step: type 12, 12_3 or 12.0", text)
	}
	runs, err := past.All(inv.Context, inv, controllers, new(show.View), targets[0], false)
	if err != nil {
		return nil, err
	}
	runs = slices.DeleteFunc(runs, func(run *pb.PastRun) bool {
		_, meant := show.JobTargets(targets).Match(run.GetJob())
		return !meant || !run.GetLive() || run.GetJob().GetStartMs() == 0 || run.GetJob().GetState() == pb.JobState_JOB_STATE_PENDING
	})
	view := show.NewView(inv.Getenv, console.Clock())
	var rows []row
	for _, run := range runs {
		if run.Steps, err = session.Steps(inv.Context, controllers, run.GetJob()); err != nil {
			return nil, err
		}
		steps, _ := past.Steps(run)
		for _, s := range chosen(steps, wanted, inv.Given("allsteps")) {
			rows = append(rows, row{view.JobName(run.GetJob()), s})
		}
	}
	switch {
	case len(rows) > 0:
		return rows, nil
	case one:
		return nil, fmt.Errorf("couldn't get steps for job %s: no step %s runs; %s -a -j %s shows those that do", name, wanted, inv.Command.Program(), name)
	case len(runs) == 0:
		return nil, fmt.Errorf("no steps running for job %s: it does not run", name)
	}
	return nil, fmt.Errorf("no steps running for job %s: -a shows its batch script", name)
}

// chosen are the steps that are wanted: one, all, or the lowest that is not the batch
// script.
func chosen(steps []*past.Step, wanted string, all bool) []*past.Step {
	switch {
	case wanted != "":
		return slices.DeleteFunc(steps, func(s *past.Step) bool { return s.ID() != wanted })
	case all:
		return steps
	case len(steps) > 0 && steps[0].ID() != past.Batch:
		return steps[:1]
	}
	return nil
}

// stepRecord is a step in --json.
type stepRecord struct {
	ID        string             `json:"id"`
	Name      string             `json:"name"`
	Nodes     []string           `json:"nodes"`
	Tasks     uint32             `json:"tasks"`
	CPUs      uint32             `json:"cpus"`
	GPUs      uint32             `json:"gpus"`
	StartTime int64              `json:"start_time"`
	UserUS    uint64             `json:"user_cpu_us"`
	SystemUS  uint64             `json:"system_cpu_us"`
	Memory    uint64             `json:"memory_bytes"`
	Virtual   uint64             `json:"virtual_bytes"`
	Read      uint64             `json:"read_bytes"`
	Written   uint64             `json:"written_bytes"`
	GPU       *gpuRecord         `json:"gpu_use"` // null = not measured
	MostRSS   taskRecord         `json:"max_rss"`
	MostVM    taskRecord         `json:"max_vm_size"`
	Pids      map[string][]int32 `json:"pids"`
}

type taskRecord struct {
	Bytes uint64 `json:"bytes"`
	Node  string `json:"node"`
	Task  uint32 `json:"task"`
}

func taskOf(m past.Most) taskRecord { return taskRecord{m.Bytes, m.Node, m.Rank} }

func writeJSON(inv *option.Invocation, rows []row) error {
	records := []stepRecord{}
	for _, r := range rows {
		records = append(records, stepRecord{
			ID: r.job + "." + r.ID(), Name: r.Name, Nodes: r.Nodes, Tasks: r.Tasks, CPUs: r.CPUs, GPUs: r.GPUs, StartTime: r.StartMS / 1000,
			UserUS: r.UserUS, SystemUS: r.SystemUS, Memory: r.SumBytes, Virtual: r.SumVirtual, Read: r.ReadBytes, Written: r.WriteBytes,
			GPU: gpuOf(r.GPU), MostRSS: taskOf(r.Peak), MostVM: taskOf(r.Virtual), Pids: r.Pids,
		})
	}
	text, err := json.MarshalIndent(map[string]any{"steps": records}, "", "  ")
	if err != nil {
		return err
	}
	_, err = inv.Stdout.Write(append(safejson.Escaped(text), '\n'))
	return console.Output(err)
}
