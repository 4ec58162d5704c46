package simulate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"compress/gzip"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/sched/sim"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// maxUnpacked bounds what is read of a trace.
const maxUnpacked = 4 << 30

// question is what one call asks.
type question struct {
	trace    string // its path
	cluster  sim.Cluster
	policies []sim.Policy // one, or with --compare two
}

func runSimulate(inv *option.Invocation) error {
	asked, err := read(inv)
	if err != nil {
		return err
	}
	results, err := replay(inv.Context, asked)
	if err != nil {
		return inv.Fail("%v", err)
	}
	if path := inv.Text("csv"); path != "" {
		if err := write(path, func(out io.Writer) { printCSV(out, results[0]) }); err != nil {
			return inv.Fail("--csv: %v", err)
		}
	}
	if path := inv.Text("svg"); path != "" {
		if err := write(path, func(out io.Writer) { draw(out, results) }); err != nil {
			return inv.Fail("--svg: %v", err)
		}
	}
	out := bufio.NewWriter(inv.Stdout)
	if inv.Given("json") {
		printJSON(out, results)
	} else {
		printText(out, results)
	}
	return console.Output(out.Flush())
}

// read reads what was asked, but for the trace.
func read(inv *option.Invocation) (*question, error) {
	if len(inv.Operands) > 0 {
		return nil, inv.Fail("gleaner simulate takes no arguments, only options: what is %q?", inv.Operands[0])
	}
	asked := &question{}
	var err error
	switch {
	case !inv.Given("trace"):
		return nil, inv.Fail("say which trace is replayed: --trace FILE")
	case inv.Given("processors") == inv.Given("cluster"):
		return nil, inv.Fail("say what the jobs run on: either --processors N or --cluster FILE")
	case inv.Given("processors"):
		number, wrong := strconv.ParseUint(inv.Text("processors"), 10, 32)
		if wrong != nil {
			return nil, inv.Fail("--processors: %q is no number of processors", inv.Text("processors"))
		}
		if asked.cluster, err = sim.Pool(uint32(number)); err != nil {
			return nil, inv.Fail("--processors: %v; describe a larger cluster by its nodes, with --cluster", err)
		}
	default:
		if asked.cluster, err = readCluster(inv.Context, inv.Text("cluster")); err != nil {
			return nil, inv.Fail("%s: %v", inv.Text("cluster"), err)
		}
	}
	words := []string{"easy"}
	if inv.Given("policy") {
		words[0] = inv.Text("policy")
	}
	if inv.Given("compare") {
		words = append(words, inv.Text("compare"))
	}
	for _, word := range words {
		policy, err := readPolicy(inv.Context, word)
		if err != nil {
			return nil, inv.Fail("%v", err)
		}
		asked.policies = append(asked.policies, policy)
	}
	asked.trace = inv.Text("trace")
	return asked, nil
}

// readTrace reads a trace, unpacked if it is gzip.
func readTrace(path string) ([]trace.Job, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer file.Close()
	from := bufio.NewReaderSize(file, 1<<20)
	if head, _ := from.Peek(2); string(head) != "\x1f\x8b" {
		return trace.Read(io.LimitReader(from, maxUnpacked))
	}
	unpacked, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	return trace.Read(io.LimitReader(unpacked, maxUnpacked))
}

// replay reads the trace and runs each policy.
func (asked *question) replay() ([]*sim.Result, error) {
	jobs, err := readTrace(asked.trace)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", asked.trace, err)
	}
	var results []*sim.Result
	for _, policy := range asked.policies {
		result, err := sim.Run(jobs, asked.cluster, policy)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", asked.trace, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// replay does that, and ends when nobody waits for it any more: a trace may be long, or
// a pipe.
func replay(ctx context.Context, asked *question) ([]*sim.Result, error) {
	type answer struct {
		results []*sim.Result
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		results, err := asked.replay()
		done <- answer{results, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case all := <-done:
		return all.results, all.err
	}
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
		fmt.Fprintf(out, "%d,%d,%d,%d,%d\n", o.ID, o.SubmitS, o.StartS, o.StartS+o.RunS, o.Processors)
	}
}
