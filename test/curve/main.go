// Command curve prints what a scheduling pass costs as work grows: by the number of
// nodes, of waiting jobs and of the unlike shapes that they have, from the replicated
// state to the plan, on one core.
//
// It promises to measure what a controller runs (package queue), and to say which aims were
// reached. What it prints depends on the machine; how the figures grow does not.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/test/curve/queue"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "curve:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	nodes, jobs []int
	shapes      int
	types       []string
	events      int
	million     bool
	json        bool
	profile     string
	all         []queue.Figures // so far
}

// million is how many jobs the largest cluster has at the end.
const million = 1_000_000

func command(words []string) error {
	o := options{}
	flags := flag.NewFlagSet("curve", flag.ExitOnError)
	nodes := flags.String("nodes", "100,1000,10000", "`numbers` of nodes, each with 8 GPUs")
	jobs := flags.String("jobs", "1000,10000,100000", "`numbers` of waiting jobs, ascending")
	types := flags.String("type", "builtin,backfill", "`types` of scheduler")
	flags.IntVar(&o.shapes, "shapes", 2000, "how many unlike shapes the jobs have at most")
	flags.IntVar(&o.events, "events", 5, "how many jobs end, one after the other, each with a pass of its own")
	flags.BoolVar(&o.million, "million", true, "a million jobs too, with backfill on the largest number of nodes")
	flags.BoolVar(&o.json, "json", false, "print the figures as JSON, one object a line")
	flags.StringVar(&o.profile, "cpuprofile", "", "write a profile of all passes to a `file`")
	if err := flags.Parse(words); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected %q: see curve --help", flags.Arg(0))
	}
	if o.shapes < 1 || o.events < 1 || o.events > 100_000 {
		return fmt.Errorf("-shapes %d -events %d: use at least 1 shape, and from 1 to 100000 events", o.shapes, o.events)
	}
	var wrong [2]error
	o.nodes, wrong[0] = numbers(*nodes, 60_000)
	o.jobs, wrong[1] = numbers(*jobs, 5_000_000)
	if err := errors.Join(wrong[:]...); err != nil {
		return err
	}
	o.types = strings.Split(*types, ",")
	runtime.GOMAXPROCS(1)
	if o.profile != "" {
		file, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	return o.run()
}

// numbers reads a list of ascending numbers.
func numbers(list string, most int) ([]int, error) {
	var all []int
	for _, word := range strings.Split(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > most || len(all) > 0 && n <= all[len(all)-1] {
			return nil, fmt.Errorf("%q: use numbers from 1 to %d, ascending, with commas between", list, most)
		}
		all = append(all, n)
	}
	return all, nil
}

// run measures each size and prints it at once.
func (o *options) run() error {
	if !o.json {
		fmt.Println("Processor time of a scheduling pass, in milliseconds: the snapshot of the state, and the plan.")
		fmt.Println("cold: idle nodes, nothing known from before. start: what one start adds to the plan, in microseconds.")
		fmt.Println("full: nodes full, nothing known from before; like cold the median of 3. event: nodes full, one job has ended; the median of", o.events)
		fmt.Printf("\n%-9s %6s %8s %6s | %9s %9s %7s %8s | %9s | %9s %9s %9s\n", "type", "nodes", "jobs", "shapes", "snapshot", "cold", "starts", "start us", "full", "snapshot", "plan", "event")
	}
	for _, kind := range o.types {
		for _, nodes := range o.nodes {
			if err := o.grow(kind, nodes); err != nil {
				return err
			}
		}
	}
	if !o.json {
		printAims(o.all)
	}
	return nil
}

// grow measures one cluster with more and more jobs.
func (o *options) grow(kind string, nodes int) error {
	c, err := queue.New(kind, nodes)
	if err != nil {
		return err
	}
	sizes := o.jobs
	if last := o.nodes[len(o.nodes)-1]; o.million && kind == "backfill" && nodes == last && sizes[len(sizes)-1] < million {
		sizes = append(slices.Clone(sizes), million)
	}
	for _, jobs := range sizes {
		if err := c.Submit(jobs, queue.Unlike(o.shapes)); err != nil {
			return err
		}
		f, err := c.Measure(o.events)
		if err != nil {
			return err
		}
		f.Type, f.Nodes, f.Jobs, f.Shapes = kind, nodes, jobs, min(jobs, o.shapes)
		o.all = append(o.all, f)
		if o.json {
			if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
				return err
			}
			continue
		}
		fmt.Printf("%-9s %6d %8d %6d | %9.1f %9.1f %7d %8.1f | %9.1f | %9.1f %9.1f %9.1f\n", f.Type, f.Nodes, f.Jobs, f.Shapes,
			f.ColdSnapshotMS, f.ColdMS, f.Starts, f.StartUS, f.FullMS, f.EventSnapshotMS, f.EventPlanMS, f.EventMS)
	}
	return nil
}
