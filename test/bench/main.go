// Command bench measures Gleaner next to Slurm, bare libcontainer and bare
// fork/exec, in turn on one machine in one run, and prints one table with
// medians, spreads and paired ratios, and which aims were reached.
//
// It promises to drive real binaries as users do, each system in a directory,
// namespaces or control group of its own on the disk, and to leave nothing of
// them behind, also after a failure or an interrupt. It needs root, the
// programs that make build puts into bin/, and for Slurm's columns what
// contrib/setup/debian.sh slurm fetches. Nothing fails because it is slow.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// options are the command line.
type options struct {
	binaries string
	size     string
	slurm    string
	disk     string
	markdown string
	json     string
	only     string
}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(words []string) error {
	if len(words) == 4 && words[0] == hostWord {
		return hostMain(words[1], words[2], words[3])
	}
	if len(words) == 3 && words[0] == networkWord {
		return networkMain(words[1], words[2])
	}
	if len(words) == 5 && words[0] == bareWord {
		return bareMain(words[1], words[2], words[3], words[4])
	}
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.StringVar(&o.binaries, "bin", "bin", "`folder` of Gleaner's programs")
	flags.StringVar(&o.size, "size", "quick", "quick (minutes) or full")
	flags.StringVar(&o.slurm, "slurm", "auto", "auto, off, or a `folder` with Slurm's packages unpacked")
	flags.StringVar(&o.disk, "disk", "/var/tmp", "`folder` on the disk to measure on")
	flags.StringVar(&o.markdown, "markdown", "", "`file` for the report as Markdown")
	flags.StringVar(&o.json, "json", "", "`file` for all figures as JSON")
	flags.StringVar(&o.only, "only", "", "failover, images, saving, reclaim, cycle, steps, starts, network or history: measure nothing else")
	if err := flags.Parse(words); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected %q: see bench --help", flags.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return measureAll(ctx, o)
}

// measureAll measures, prints, and removes what it made.
func measureAll(ctx context.Context, o options) (err error) {
	if alone := []string{failoverOnly, imagesOnly, savingOnly, reclaimOnly, cycleOnly, stepsOnly, startsOnly, networkOnly, historyOnly}; o.only != "" && !slices.Contains(alone, o.only) {
		return fmt.Errorf("--only=%s: %s are what can be measured by themselves", o.only, strings.Join(alone, ", "))
	}
	s, ok := plans[o.size]
	if !ok {
		return fmt.Errorf("size %q is neither quick nor full", o.size)
	}
	if os.Geteuid() != 0 {
		return errors.New("containers, control groups and namespaces need root: run it with sudo")
	}
	if o.binaries, err = filepath.Abs(o.binaries); err != nil {
		return err
	}
	b, err := newBench(o, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove()) }()
	fmt.Println(strings.Join(b.machine.sentences(), "\n"))
	b.measure(ctx)
	if ctx.Err() != nil {
		b.failures = append(b.failures, errors.New("interrupted: the table is not whole; what was started has been ended and removed"))
	}
	aims := b.table.aims()
	if err := printReport(os.Stdout, b.table, aims); err != nil {
		return err
	}
	for path, write := range map[string]func(io.Writer, machine, *table, []aim) error{o.markdown: writeMarkdown, o.json: writeJSON} {
		if path == "" {
			continue
		}
		if err := writeReport(path, b, aims, write); err != nil {
			return err
		}
	}
	return errors.Join(b.failures...)
}

func printReport(out io.Writer, t *table, aims []aim) error {
	fmt.Fprintln(out)
	if err := t.writeText(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, sentence := range append(notes(), t.reasons()...) {
		fmt.Fprintln(out, "*", sentence)
	}
	fmt.Fprintln(out, "\naims")
	for _, a := range aims {
		if _, err := fmt.Fprintf(out, "  %-12s  %10s  %s\n", a.verdict(), a.Figure, a.What); err != nil {
			return err
		}
	}
	return nil
}

func writeReport(path string, b *bench, aims []aim, write func(io.Writer, machine, *table, []aim) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file, b.machine, b.table, aims), file.Close())
}
