// Command traces replays recorded workloads under all policies of gleaner simulate, and
// prints their figures beside those of pyss, the simulator of the Hebrew University.
//
// It promises to replay by package sched/sim, whose plans are the controllers', and to
// end with status 1 if a figure is not what it has to be. The traces and the schedules of
// pyss are not part of the tree: it is told where they lie.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "traces:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	folder      string
	quick, json bool
}

func command(words []string) error {
	var o options
	flags := flag.NewFlagSet("traces", flag.ExitOnError)
	flags.StringVar(&o.folder, "folder", "../shared/data", "`folder` of the traces")
	flags.BoolVar(&o.quick, "quick", false, "leave out the traces whose replays take minutes")
	flags.BoolVar(&o.json, "json", false, "print the figures as JSON, one object a line")
	if err := flags.Parse(words); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected %q: see traces --help", flags.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return o.run(ctx)
}

// errWrong is returned if a figure is not what it has to be.
var errWrong = errors.New("some figures are not what they have to be; they are marked")

func (o *options) run(ctx context.Context) error {
	if !o.json {
		fmt.Println("Mean wait in seconds and mean bounded slowdown, with those of pyss behind. differ: jobs that start at")
		fmt.Println("another time than there. late: jobs that start later than it was planned first, of those with a plan.")
		fmt.Printf("\n%-41s %-16s %11s %11s %9s %9s %6s %7s %14s\n", "trace, processors", "policy", "wait", "pyss", "slowdown", "pyss", "use", "differ", "late")
	}
	var wrong error
	for i := range workloads {
		w := &workloads[i]
		if w.long && o.quick {
			continue
		}
		jobs, err := w.jobs(o.folder)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: make traces TRACES=FOLDER says where the traces are (docs/backfill.md)", err)
		} else if err != nil {
			return err
		}
		for k := range w.policies {
			r, err := w.replay(jobs, &w.policies[k], o.folder, func(int, int) error { return ctx.Err() })
			if err != nil {
				return err
			}
			judged := w.policies[k].judge(r)
			if judged != nil {
				wrong = errWrong
			}
			if err := o.print(w, &w.policies[k], r, judged); err != nil {
				return err
			}
		}
	}
	return wrong
}

func (o *options) print(w *workload, k *known, r *replayed, judged error) error {
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	orNone := func(figure float64, digits int) string {
		if figure <= 0 {
			return ""
		}
		return fmt.Sprintf("%.*f", digits, figure)
	}
	differ := ""
	if r.Differ >= 0 {
		differ = fmt.Sprint(r.Differ)
	}
	fmt.Printf("%-41s %-16s %11.1f %11s %9.2f %9s %6.3f %7s %14s\n", fmt.Sprintf("%s, %d", w.name, w.processors), r.Policy,
		r.MeanWaitS, orNone(k.waitS, 1), r.MeanSlowdown, orNone(k.slowdown, 2), r.Utilization, differ, fmt.Sprintf("%d of %d", r.Late, r.Promised))
	if judged != nil {
		fmt.Printf("  WRONG: %v\n", judged)
	}
	return nil
}
