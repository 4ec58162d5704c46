package simulate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/replay"
	"github.com/gleaner-hpc/gleaner/sched/sim"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

func runSimulate(inv *option.Invocation) error {
	asked, err := read(inv)
	if err != nil {
		return err
	}
	results, err := asked.replay(inv)
	if err != nil {
		return inv.Fail("%w", err)
	}
	if path := inv.Text("csv"); path != "" {
		if err := write(path, func(out io.Writer) { printCSV(out, results[0]) }); err != nil {
			return inv.Fail("--csv: %w", err)
		}
	}
	if path := inv.Text("svg"); path != "" {
		if err := write(path, func(out io.Writer) { replay.Draw(out, results, asked.unit()) }); err != nil {
			return inv.Fail("--svg: %w", err)
		}
	}
	return console.Output(asked.print(inv, results))
}

// print prints what was found.
func (asked *question) print(inv *option.Invocation, results []*sim.Result) error {
	out := bufio.NewWriter(inv.Stdout)
	if inv.Given("json") {
		if err := replay.PrintJSON(out, results, asked.cluster.Owners, asked.cut); err != nil {
			return err
		}
		return out.Flush()
	}
	switch {
	case asked.cut > 0 && asked.recorded != nil:
		fmt.Fprintf(out, "%d jobs are left out: there are no nodes for them now, or not under each policy.\n", asked.cut)
	case asked.cut > 0:
		fmt.Fprintf(out, "%d jobs are left out: their account owns no nodes, or too few for them.\n", asked.cut)
	}
	if asked.lends {
		replay.PrintLending(out, results, asked.cluster.Owners)
	} else {
		replay.Print(out, results)
	}
	return out.Flush()
}

// unit is what a processor is.
func (asked *question) unit() string {
	for i := range asked.cluster.Nodes {
		if len(asked.cluster.Nodes[i].Devices) > 0 {
			return "GPUs"
		}
	}
	return "processors"
}

// replay reads the trace and runs each policy. It ends when the user interrupts.
func (asked *question) replay(inv *option.Invocation) ([]*sim.Result, error) {
	jobs, err := asked.jobs(inv)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", asked.trace, err)
	}
	shown := console.NewProgress(inv)
	defer shown.Clear()
	var results []*sim.Result
	for _, of := range asked.asked {
		if asked.lends {
			of.cluster.Reclaims = sim.Departures(asked.moves, &of.cluster, jobs[0].SubmitS, jobs[len(jobs)-1].SubmitS)
		}
		result, err := sim.Run(jobs, of.cluster, of.policy, func(ended, all int) error {
			shown.Show("%s: %d of %d jobs", of.policy.Name, ended, all)
			return inv.Context.Err()
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", asked.trace, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// jobs are those that are replayed.
func (asked *question) jobs(inv *option.Invocation) (jobs []trace.Job, err error) {
	if asked.recorded != nil {
		jobs = asked.recorded.Jobs
	} else if err = interruptible(inv.Context, func() (err error) {
		jobs, err = readTrace(asked.trace, trace.Read)
		return err
	}); err != nil {
		return nil, err
	}
	firstS := int64(0)
	if asked.recorded != nil {
		firstS = jobs[0].SubmitS // whose times are those of the calendar
	}
	jobs = slices.DeleteFunc(jobs, func(job trace.Job) bool {
		return job.SubmitS-firstS < asked.fromS || job.SubmitS-firstS >= asked.untilS
	})
	if asked.roundLimits {
		trace.RoundLimits(jobs)
	}
	if asked.lends {
		cut := 0
		jobs, cut = sim.Owned(jobs, &asked.cluster)
		asked.cut += cut
	}
	if len(jobs) == 0 {
		return nil, errors.New("no job is left of it; --from and --until choose a part of it, and for nodes with owners, name the accounts of the trace as owner of a [[node]] each, with enough nodes")
	}
	return jobs, nil
}

// write writes a file whole, or says why it could not.
func write(path string, content func(io.Writer)) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	content(out)
	return errors.Join(out.Flush(), file.Close())
}

func printCSV(out io.Writer, result *sim.Result) {
	fmt.Fprintln(out, "job_id,submit,start,end,processors")
	for i := range result.Jobs {
		o := &result.Jobs[i]
		fmt.Fprintf(out, "%d,%d,%d,%d,%d\n", o.ID, o.SubmitS, o.StartS, o.EndS, o.Processors)
	}
}
