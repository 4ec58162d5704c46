// Package alloc is galloc, Slurm's salloc: it holds an allocation while a command runs
// on this host.
//
// A session of the job stands for galloc there (packages allocation and hold): it ends
// with the status of the command, and so does the job.
package alloc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/allocation"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// partTime is how long the session of galloc may take to end.
const partTime = 5 * time.Second

func run(inv *option.Invocation) error {
	inEnvironment, err := inv.Command.FromEnvironment(inv.Lookup)
	if err != nil {
		return err
	}
	inv.Values = inv.Over(inEnvironment)
	if inv.Given(optNoShell) {
		return leave(inv)
	}
	revoked := syscall.Signal(0)
	argv := inv.Operands
	switch {
	case inv.Given(optKillCommand):
		if revoked, err = killSignal(inv.Text(optKillCommand)); err != nil {
			return err
		}
	case len(argv) == 0:
		revoked = syscall.SIGHUP
	}
	name := "interactive"
	if len(argv) > 0 {
		name = filepath.Base(argv[0])
	} else if argv = []string{inv.Getenv("SHELL")}; argv[0] == "" {
		argv[0] = "/bin/sh"
	}
	a, err := allocation.Obtain(inv, inv.Values, name)
	if err != nil {
		return err
	}
	say(inv, "Granted job allocation %s", a.Name())
	say(inv, "Nodes %s are ready for job", a.Job.GetNodeList())
	keeper := keep(inv, a)
	status, err := attend(inv, a, argv, keeper, revoked)
	keeper.end(status)
	say(inv, "Relinquishing job allocation %s", a.Name())
	return errors.Join(err, option.Exit(status), a.Release())
}

// leave gets an allocation and runs nothing: the number is what was wanted.
func leave(inv *option.Invocation) error {
	if len(inv.Operands) > 0 {
		return inv.Fail("--%s runs no command: leave %q out", optNoShell, inv.Operands[0])
	}
	a, err := allocation.ObtainWithoutClient(inv, inv.Values, optNoShell)
	if err != nil {
		return err
	}
	a.Leave()
	say(inv, "Granted job allocation %s", a.Name())
	say(inv, "Nodes %s are ready for job", a.Job.GetNodeList())
	return nil
}

func killSignal(text string) (syscall.Signal, error) {
	if text == "" {
		return syscall.SIGTERM, nil
	}
	number, err := spec.ParseSignal(text)
	if err != nil {
		return 0, option.Fail(255, "Invalid --%s specification: %w", optKillCommand, err)
	}
	return syscall.Signal(number), nil
}

// keeper is the session that stands for galloc inside the job.
type keeper struct {
	input *io.PipeWriter
	over  chan error
}

// keep begins it: a shell that waits for the status to end with.
func keep(inv *option.Invocation, a *allocation.Allocation) *keeper {
	reader, writer := io.Pipe()
	k := &keeper{input: writer, over: make(chan error, 1)}
	own := *inv
	own.Stdin, own.Stdout, own.Stderr = reader, io.Discard, io.Discard
	open := &step.Open{
		Name: a.Session, Client: uuid.NewString(), Argv: step.Strings{"/bin/sh", "-c", `read -r status; exit "${status:-1}"`},
		Env: step.Strings{"PATH=/usr/local/bin:/usr/bin:/bin"}, Cwd: "/", Umask: 0o77,
	}
	go func() { k.over <- session.Keep(&own, a.ID(), a.Name(), open) }()
	return k
}

// end tells it the status, and waits a moment for its end.
func (k *keeper) end(status int) {
	go func() {
		fmt.Fprintln(k.input, status)
		_ = k.input.Close()
	}()
	select {
	case <-k.over:
	case <-time.After(partTime):
	}
}

// attend runs the command to its end. If the allocation is over before, the user is
// told, and the command gets the signal for that, if there is one.
func attend(inv *option.Invocation, a *allocation.Allocation, argv []string, k *keeper, revoked syscall.Signal) (int, error) {
	environ := append(append([]string{}, inv.Environ...), variables(a.Job)...)
	command := exec.Command(argv[0], argv[1:]...)
	command.Stdin, command.Stdout, command.Stderr, command.Env = inv.Stdin, inv.Stdout, inv.Stderr, environ
	// What is typed at the terminal reaches the command by itself.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := command.Start(); err != nil {
		return 1, option.Fail(1, "_fork_command: Unable to find command %q: %w", argv[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	over := k.over
	for {
		select {
		case err := <-ended:
			return statusOf(command, err), nil
		case why := <-over:
			k.over <- why
			over = nil
			say(inv, "Job allocation %s has been revoked.", a.Name())
			if revoked != 0 {
				_ = command.Process.Signal(revoked)
			}
		case sig := <-signals:
			if sig == syscall.SIGTERM || sig == syscall.SIGHUP {
				_ = command.Process.Signal(sig)
			}
		}
	}
}

// statusOf is what a shell would say of the end of a command.
func statusOf(command *exec.Cmd, err error) int {
	state, known := command.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case known && state.Signaled():
		return 128 + int(state.Signal())
	case known:
		return state.ExitStatus()
	case err != nil:
		return 1
	}
	return 0
}

func say(inv *option.Invocation, text string, arguments ...any) {
	if !inv.Given("quiet") {
		fmt.Fprintf(inv.Stderr, "%s: %s\n", inv.Command.Program(), fmt.Sprintf(text, arguments...))
	}
}
