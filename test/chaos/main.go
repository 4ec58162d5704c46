// Command chaos runs a real cluster in hostile weather: controllers and nodes,
// each on a host of its own made of namespaces, work off a stream of real jobs
// while daemons are killed and stopped, networks cut, disks filled and files
// damaged; then a checker compares what clients were told, what jobs wrote down
// themselves, and what the cluster says.
//
// It promises that everything has a deadline, that nothing of it is left on the
// machine, also after a failure or an interrupt, and that its exit status is 0
// only if nothing was lost, nothing ran twice at once, no device was given
// twice, and all is free at the end. It needs root, what package host needs,
// and the programs that make build puts into bin/.
//
// The same seed gives the same faults in the same order on the same targets;
// it does not give the same timing, which is that of real processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/host"
)

// insideWord is the first argument of the process that runs the test, inside
// the lab's namespaces.
const insideWord = "inside"

func main() {
	status, err := command(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func command(words []string) (int, error) {
	if len(words) > 0 {
		switch words[0] {
		case host.InitWord:
			return 1, host.Init(words[1:])
		case host.EnterWord:
			return host.Inside(words[1:])
		case insideWord:
			return inside(words[1:])
		}
	}
	return outside(words)
}

// options are the command line.
type options struct {
	binaries    string
	recorder    string
	directory   string
	logs        string
	length      time.Duration // of the weather
	seed        uint64
	controllers int
	nodes       int
	live        int // jobs at once
	owners      int // lanes of owners, of each kind
	only        string
	story       string
	keep        bool
}

func parse(words []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.StringVar(&o.binaries, "bin", "bin", "`folder` of Gleaner's programs")
	flags.StringVar(&o.recorder, "record", "", "the `program` that jobs run (default: record in the directory of this program)")
	flags.StringVar(&o.directory, "dir", "", "`folder` to work in (default: a new one in /var/tmp)")
	flags.StringVar(&o.logs, "logs", "", "`folder` for the logs of a failure (default: next to the working folder)")
	flags.DurationVar(&o.length, "length", time.Minute, "`time` of bad weather")
	flags.Uint64Var(&o.seed, "seed", 0, "`number` that the faults follow from (default: a new one)")
	flags.IntVar(&o.controllers, "controllers", 3, "controllers: 1 or 3")
	flags.IntVar(&o.nodes, "nodes", 6, "nodes")
	flags.IntVar(&o.live, "live", 30, "jobs in the queue at once, about")
	flags.IntVar(&o.owners, "owners", 1, "how many owners take nodes back at once, and as many on the nodes")
	flags.StringVar(&o.only, "only", "", "only these `faults`, comma-separated; none for calm weather")
	flags.BoolVar(&o.keep, "keep", false, "keep the logs also when all went well")
	flags.StringVar(&o.story, "story", "", "in place of weather, tell this `story`: "+strings.Join(storyNames(), ", "))
	if err := flags.Parse(words); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected %q: see chaos --help", flags.Arg(0))
	}
	if o.controllers != 1 && o.controllers != 3 || o.nodes < 3 || o.nodes > 20 || o.live < 1 || o.owners < 1 || o.owners > 10 {
		return o, errors.New("controllers are 1 or 3, nodes 3 to 20, live jobs at least 1, owners 1 to 10")
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	return o, nil
}

// outside makes what the kernel does not remove by itself, enters the lab, and
// cleans up behind it.
func outside(words []string) (status int, err error) {
	o, err := parse(words)
	if errors.Is(err, flag.ErrHelp) {
		return 0, nil
	}
	if err != nil {
		return 2, err
	}
	if os.Geteuid() != 0 {
		fmt.Println("chaos: skipped: it needs root, for namespaces, containers and control groups")
		return 0, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.prepare(); err != nil {
		return 1, err
	}
	status, err = host.Enter(ctx, o.directory, o.words()...)
	left, cleanErr := o.cleanUp(status == 0 && err == nil && !o.keep)
	if len(left) > 0 {
		fmt.Println("left behind:")
		for _, what := range left {
			fmt.Println(" ", what)
		}
		status = max(status, 1)
	}
	fmt.Printf("left behind on this machine %d\n", len(left))
	return status, errors.Join(err, cleanErr)
}

// words are the options as the process inside reads them.
func (o *options) words() []string {
	return []string{
		insideWord, "-bin", o.binaries, "-record", o.recorder, "-dir", o.directory, "-length", o.length.String(),
		"-seed", fmt.Sprint(o.seed), "-controllers", fmt.Sprint(o.controllers), "-nodes", fmt.Sprint(o.nodes),
		"-live", fmt.Sprint(o.live), "-owners", fmt.Sprint(o.owners), "-only", o.only, "-story", o.story,
	}
}

// prepare makes the directory, the accounts, and copies of the programs that
// every user can reach.
func (o *options) prepare() (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if o.recorder == "" {
		o.recorder = filepath.Join(filepath.Dir(self), "record")
	}
	if o.directory == "" {
		if o.directory, err = os.MkdirTemp("/var/tmp", fmt.Sprintf("gl-chaos-%d-", os.Getpid())); err != nil {
			return err
		}
	}
	if o.logs == "" {
		o.logs = o.directory + ".logs"
	}
	if err := os.Chmod(o.directory, 0o755); err != nil {
		return err
	}
	programs := filepath.Join(o.directory, "bin")
	if err := os.CopyFS(programs, os.DirFS(o.binaries)); err != nil {
		return fmt.Errorf("%w: run make build first", err)
	}
	if err := copyFile(o.recorder, filepath.Join(programs, "record")); err != nil {
		return err
	}
	o.binaries, o.recorder = programs, filepath.Join(programs, "record")
	return writeAccounts(o.directory)
}

// cleanUp removes what is left, keeps the logs unless all went well, and says
// what could not be removed.
func (o *options) cleanUp(well bool) (left []string, err error) {
	host.RemoveGroups(host.Group(o.directory))
	left = host.Left(o.directory)
	if !well {
		if err := os.Rename(filepath.Join(o.directory, logFolder), o.logs); err == nil {
			fmt.Printf("the logs are in %s\n", o.logs)
		}
	}
	return left, host.Remove(o.directory)
}

// inside runs the test, in the lab's namespaces.
func inside(words []string) (int, error) {
	o, err := parse(words)
	if err != nil {
		return 2, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, o)
}
