package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// verb is what a user wants done; each system has a program for it.
type verb int

const (
	submitVerb verb = iota
	queueVerb
	infoVerb
	controlVerb
	accountVerb
	reclaimVerb
	releaseVerb
	historyVerb
	diagnoseVerb
)

// system is a controller and a node, just started, with nothing in its queue.
type system interface {
	// program prepares one of the user's commands.
	program(what verb, arguments ...string) *exec.Cmd
	// launch starts what program prepared, inside the system's own world.
	launch(command *exec.Cmd) error
	// submitMany submits waiting jobs through the system's own interface,
	// without a process for each, from so many clients of which each waits for
	// its answer, and says how long that took.
	submitMany(ctx context.Context, load load) (time.Duration, error)
	// controller is the controller's process.
	controller() int
	// stop ends every process of it.
	stop() error
}

// plainEnvironment is what every side's programs find.
var plainEnvironment = []string{"PATH=/usr/bin:/bin", "HOME=/", "LANG=C"}

// load is a number of small jobs.
type load struct {
	jobs, clients int
	names         names
	tasks         int    // above 0: each job is an array of so many tasks
	gpus          string // what libslurm/submit.c calls it; "" = none. Only with Slurm
}

type names string

const (
	alike     names = "same"
	different names = "different"
)

const (
	// commandPatience bounds one of the user's commands.
	commandPatience = 2 * time.Minute
	// startPatience bounds the start of a system.
	startPatience = 30 * time.Second
)

// run runs one of the user's commands to its end. Its error holds what the
// command said.
func run(ctx context.Context, s system, what verb, arguments ...string) (string, error) {
	command := s.program(what, arguments...)
	var output, complaint bytes.Buffer
	command.Stdout, command.Stderr = &output, &complaint
	if err := s.launch(command); err != nil {
		return "", fmt.Errorf("start %s: %w", command.Path, err)
	}
	if err := wait(ctx, command); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", command.Path, strings.Join(arguments, " "), err, strings.TrimSpace(complaint.String()+output.String()))
	}
	return output.String(), nil
}

// wait waits for the end of a started command, and kills it when it takes too
// long or nobody wants it any more.
func wait(ctx context.Context, command *exec.Cmd) error {
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	err := command.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// until asks done again and again until it says yes.
func until(ctx context.Context, what string, patience, every time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %v for %s", patience, what))
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		yes, err := done()
		if yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// untilUp waits until the controller answers and its node is idle, or one of
// the daemons has ended.
func untilUp(ctx context.Context, s system, daemons []*daemon) error {
	return until(ctx, "the controller and its node", startPatience, 20*time.Millisecond, func() (bool, error) {
		for _, d := range daemons {
			select {
			case <-d.ended:
				return false, fmt.Errorf("%s ended", d.command.Path)
			default:
			}
		}
		state, err := run(ctx, s, infoVerb, "-h", "-o", "%T")
		return err == nil && strings.TrimSpace(state) == "idle", ctx.Err()
	})
}

// drain keeps jobs waiting.
func drain(ctx context.Context, s system) error {
	_, err := run(ctx, s, controlVerb, "update", "nodename="+hostName, "state=drain", "reason=benchmark")
	return err
}

// residentBytes is the memory that the kernel keeps for a process and that is
// no file's (proc(5), RssAnon): pages of a mapped log are the disk's cache.
func residentBytes(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			fields := strings.Fields(rest)
			kib, err := strconv.ParseFloat(fields[0], 64)
			return kib * 1024, err
		}
	}
	return 0, errors.New("the kernel does not say how much memory process " + strconv.Itoa(pid) + " has")
}

// daemon is a process that runs until it is told to end.
type daemon struct {
	command *exec.Cmd
	ended   chan struct{}
}

func startDaemon(command *exec.Cmd, launch func(*exec.Cmd) error) (*daemon, error) {
	d := &daemon{command, make(chan struct{})}
	if err := launch(command); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	go func() {
		_ = command.Wait() // an untimely end shows: nothing answers any more
		close(d.ended)
	}()
	return d, nil
}

// end asks a daemon to end, and kills it when it does not.
func (d *daemon) end() error {
	const patience = 90 * time.Second // a whole cluster ends its jobs first
	_ = d.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
		return nil
	case <-time.After(patience):
		_ = d.command.Process.Kill()
		<-d.ended
		return fmt.Errorf("%s did not end in %v and was killed", d.command.Path, patience)
	}
}

// lastWords are the ends of log files, for an error's text.
func lastWords(paths ...string) string {
	var words strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil && len(text) > 0 {
			const most = 600
			fmt.Fprintf(&words, "\n%s ends: %s", path, text[max(0, len(text)-most):])
		}
	}
	return words.String()
}
