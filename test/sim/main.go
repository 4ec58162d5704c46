// Command sim runs simulated days of a whole cluster in virtual time, each
// from one seed: controllers over an ordered log, nodes, users, and everything
// that can go wrong between them. See README.md for what is modelled and what
// is not.
//
// With -seed it prints one line an event and the digest of all lines; the same
// seed prints the same bytes on every machine. With -seeds it runs many seeds
// on all CPUs and prints a summary. A seed that fails ends the run with status
// 1: the invariant, the last lines, and the command that replays it.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/test/sim/departures"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
	"github.com/gleaner-hpc/gleaner/test/sim/ordered"
)

func main() {
	seed := flag.Int64("seed", -1, "run this seed and print its events")
	seeds := flag.Int("seeds", 100, "how many seeds to run")
	from := flag.Uint64("from", 1, "the first of them")
	hours := flag.Float64("hours", 24, "simulated hours of work and faults in each")
	only := flag.String("only", "", "numbers of the faults that happen, as in 3,17; \"\" = all")
	shrink := flag.Bool("shrink", false, "look for fewer faults with which a failing seed still fails")
	limit := flag.Duration("limit", 0, "begin no further seed after this time; 0 = run all")
	traces := flag.String("departures", "", "nodes join and leave as this `file` says, or the files of this folder")
	forgetful := flag.Bool("forgetful", false, "nodes do not remember the allocations that they had: a fault, which the cluster may notice or not")
	holes := flag.Bool("holes", false, "jobs that can be saved start in holes of the plan (bf_checkpoint), and one start is planned in each partition")
	flag.Parse()
	// Almost all that is made in a run is garbage at its end.
	debug.SetGCPercent(400)
	options := ordered.Options{Hours: *hours, Only: numbers(*only), Holes: *holes, Broken: ordered.Broken{Broken: node.Broken{NoMemory: *forgetful}}}
	if *traces != "" {
		var err error
		if options.Departures, err = departures.ReadAll(*traces); err != nil {
			fmt.Fprintln(os.Stderr, "sim: -departures:", err)
			os.Exit(2)
		}
	}
	ok := false
	if *seed >= 0 {
		options.Seed = uint64(*seed)
		ok = runOne(options, *shrink)
	} else {
		ok = runMany(options, *from, *seeds, *limit, *shrink)
	}
	if !ok {
		os.Exit(1)
	}
}

// runOne prints a seed's events.
func runOne(o ordered.Options, shrink bool) bool {
	out := bufio.NewWriter(os.Stdout)
	o.Trace = out
	result := ordered.Run(o)
	fmt.Fprintf(out, "seed %d: %d events, digest %s\n", o.Seed, result.Steps, result.Digest)
	var total tally
	total.add(&result)
	total.print(out)
	_ = out.Flush()
	if result.Failure == nil {
		return true
	}
	fmt.Fprintf(os.Stderr, "\nseed %d failed after %v: %v\n", o.Seed, result.Failure.At, result.Failure)
	if shrink {
		o.Trace = nil
		small := shrunk(o, &result)
		explain(small.options, &small.result)
	}
	return false
}

func numbers(text string) []int {
	if text == "" {
		return nil
	}
	list := []int{}
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			fmt.Fprintf(os.Stderr, "sim: -only: %q is no number\n", field)
			os.Exit(2)
		}
		list = append(list, n)
	}
	return list
}

// explain prints a failure and how to see it again.
func explain(o ordered.Options, result *ordered.Result) {
	fmt.Fprintf(os.Stderr, "\nseed %d failed after %v of virtual time: %v\n\nthe last lines:\n%s\nreplay: make sim SEED=%d", o.Seed, result.Failure.At.Round(time.Millisecond), result.Failure, strings.Join(result.Last, ""), o.Seed)
	arguments := ""
	if o.Hours != 24 {
		arguments += fmt.Sprintf(" -hours %g", o.Hours)
	}
	if o.Only != nil {
		arguments += " -only " + strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Only), " ", ","), "[]")
	}
	if o.Holes {
		arguments += " -holes"
	}
	if len(o.Departures) > 0 {
		arguments += " -departures " + flag.Lookup("departures").Value.String()
	}
	if arguments != "" {
		fmt.Fprintf(os.Stderr, " SIMFLAGS='%s'", strings.TrimSpace(arguments))
	}
	fmt.Fprintln(os.Stderr)
}
