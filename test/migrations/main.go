// Command migrations runs real programs as jobs of a cluster, undisturbed and
// moved between its nodes at several moments, there and back, and says which
// ended with the same output. contrib/migrations.sh starts the cluster for it.
//
// It promises that a migration counts as good only if the job resumed elsewhere
// and its run ended with the exit status, the output and the files of the
// undisturbed run, all compared byte by byte; and that it fails if fewer than 99
// in 100 are good, if something that cannot be saved is moved or is refused
// without its reason, or if nothing was moved. It needs root, to act as the
// user, and gsubmit, gqueue, gcontrol and gcancel on the PATH, with a cluster of
// two nodes or more behind them. Each run works in a directory of its own below
// the user's home. Nothing fails by being slow, up to minutes for a step.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"

	"github.com/gleaner-hpc/gleaner/noded/container/programs"
)

// options are the command line.
type options struct {
	user     string
	rounds   int
	parallel int
	only     string
	markdown string
}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "migrations:", err)
		os.Exit(1)
	}
}

func command(words []string) error {
	o := options{}
	flags := flag.NewFlagSet("migrations", flag.ExitOnError)
	flags.StringVar(&o.user, "user", "", "the `user` whose jobs they are")
	flags.IntVar(&o.rounds, "rounds", 2, "how often each program is run and moved there and back")
	flags.IntVar(&o.parallel, "parallel", 3, "how many programs run at a time")
	flags.StringVar(&o.only, "only", "", "only programs whose names this `expression` matches")
	flags.StringVar(&o.markdown, "o", "", "`file` for the table as Markdown")
	if err := flags.Parse(words); err != nil {
		return err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	if o.rounds < 1 || o.parallel < 1 || flags.NArg() > 0 {
		return errors.New("bad words: see migrations --help")
	}
	all, err := programs.All()
	if err != nil {
		return err
	}
	c, err := newCluster(o.user)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var chosen []*programs.Program
	for _, p := range all {
		if only.MatchString(p.Name) {
			chosen = append(chosen, p)
		}
	}
	t := runAll(ctx, c, chosen, o)
	if err := ctx.Err(); err != nil {
		return errors.New("interrupted")
	}
	fmt.Println()
	if err := t.writeText(os.Stdout); err != nil {
		return err
	}
	if o.markdown != "" {
		if err := writeFile(o.markdown, t.writeMarkdown); err != nil {
			return err
		}
	}
	return t.verdict()
}

// runAll runs each program undisturbed and then, in rounds, moved.
func runAll(ctx context.Context, c *cluster, all []*programs.Program, o options) table {
	rows := make(table, len(all))
	work := make(chan int)
	var workers sync.WaitGroup
	for range o.parallel {
		workers.Go(func() {
			for i := range work {
				rows[i] = runProgram(ctx, c, all[i], o.rounds)
				fmt.Printf("%-20s %s\n", all[i].Name, rows[i].verdict())
			}
		})
	}
	for i := range all {
		work <- i
	}
	close(work)
	workers.Wait()
	return rows
}

// runProgram makes one row of the table.
func runProgram(ctx context.Context, c *cluster, p *programs.Program, rounds int) *row {
	r := &row{program: p, missing: p.Missing(ctx)}
	if r.missing != "" {
		return r
	}
	undisturbed := c.run(ctx, p, "undisturbed", nil)
	if undisturbed.err != nil {
		r.err = fmt.Errorf("undisturbed: %w", undisturbed.err)
		return r
	}
	if p.Refused != nil {
		rounds = 1
	}
	for round := range rounds {
		moved := c.run(ctx, p, fmt.Sprintf("round-%d", round+1), momentsOf(p, round))
		moved.compare(undisturbed)
		r.runs = append(r.runs, moved)
	}
	return r
}
