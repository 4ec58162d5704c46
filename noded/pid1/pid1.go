// Package pid1 is process 1 of a job's container, on each of the job's nodes.
//
// It runs as the job's user and has no privilege of any kind. From a pipe
// (OrdersFd) it reads its system-call filter, which it installs before it does
// anything else, and its orders. In the directory that it shares with
// the supervisor outside (Dir) it listens on step.sock. There it leaves
// start.json when the batch script has executed its first instruction,
// exit.json when the script has ended, and steps.jsonl, a line when a step begins here
// and one when it ends.
//
// What it promises: nothing starts without the filter. The batch script and every task
// of a step are its descendants, each in its own session, with standard input and output
// that it opened itself. It reaps every orphan. Nothing of the
// job outlives it (the kernel kills a PID namespace with its process 1), and it dies
// with its supervisor. A session (step.Open) needs no client: it
// continues when nobody is attached. The end of the batch script is the end of
// the job on that node, as in Slurm: what is left is killed. On a node that
// does not run the script, it serves steps until it is killed.
//
// What it needs: its own PID namespace, the directory, and the standard
// library; it is built without cgo, so that it runs in any root.
package pid1

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/forward"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Dir is where the shared directory is mounted in every container.
const Dir = "/run/gleaner"

// Names of files in the shared directory.
const (
	StartFile  = "start.json"
	ExitFile   = "exit.json"
	StepsFile  = "steps.jsonl"
	StepSocket = "step.sock"
	ScriptFile = "slurm_script"
	StdioDir   = "stdio"
)

// ReadyFd is the descriptor on which the byte ReadyByte is written once
// step.sock answers, or a sentence that says why it never will; it is closed
// after that. OrdersFd is the descriptor at which WriteOrders can be read.
const (
	ReadyFd   = 3
	ReadyByte = 1
	OrdersFd  = 4
)

// Exit statuses of process 1 itself, in addition to those of the batch script.
const exitSetup = 125

// Main runs process 1, or the launcher of a task when the arguments say so,
// and answers the exit status of the program.
func Main(args []string) int {
	if len(args) > 1 && args[1] == taskWord {
		return taskMain(args[2:])
	}
	if len(args) > 1 && args[1] == step.CopyWord {
		return copyMain(args[2:])
	}
	if len(args) == 2 && args[1] == forward.Word {
		return forwardMain()
	}
	// Without this the job would outlive a supervisor that was killed.
	ready := os.NewFile(ReadyFd, "ready")
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		_, _ = fmt.Fprintf(ready, "process 1: ask for the supervisor's death signal: %v", err)
		return exitSetup
	}
	config, err := takeOrders()
	if err == nil {
		err = lowerLimits()
	}
	status := exitSetup
	if err == nil {
		status, err = Run(Dir, config, ready)
	}
	if err != nil {
		_, _ = fmt.Fprintf(ready, "process 1: %v", err)
		return exitSetup
	}
	return status
}

// takeOrders reads the orders and installs the filter that came with them.
func takeOrders() (*Config, error) {
	orders := os.NewFile(OrdersFd, "orders")
	defer orders.Close()
	filter, config, err := ReadOrders(orders)
	if err != nil {
		return nil, err
	}
	return config, filter.Install()
}

// process1 is the state of one run.
type process1 struct {
	dir    string
	config *Config
	reaper *reaper

	batch     batch
	steps     steps
	grants    grants
	ports     ports
	sessions  sessions
	listeners []net.Listener // for steps
	records   records
	batchDone chan int
}

// Run does the work of process 1 in dir, and answers the exit status. It
// closes ready when it answers.
func Run(dir string, config *Config, ready *os.File) (int, error) {
	p := &process1{dir: dir, config: config, reaper: newReaper(), batchDone: make(chan int, 1)}
	p.steps.running = make(map[running]bool)
	p.grants.init(config.Job)

	signals := make(chan os.Signal, 64)
	signal.Notify(signals, caught...)
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)

	if err := p.listen(); err != nil {
		return 0, err
	}
	defer func() {
		for _, listener := range p.listeners {
			listener.Close()
		}
	}()
	go p.serve()
	if _, err := ready.Write([]byte{ReadyByte}); err != nil {
		return 0, fmt.Errorf("tell the supervisor: %w", err)
	}
	ready.Close()

	if b := config.Batch; b != nil && !b.Wait {
		p.startBatch()
	}
	// A child may die between two looks at the channel only to be noticed at
	// the next SIGCHLD; the tick makes sure that there is a next look.
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-children:
			p.reaper.reap()
		case <-tick.C:
			p.reaper.reap()
		case s := <-signals:
			if s == unix.SIGTERM {
				p.signalAll(unix.SIGTERM)
			}
		case status := <-p.batchDone:
			p.killEverything()
			return status, nil
		}
	}
}

// caught are the signals that would end or stop a Go program. They are
// caught, not ignored, because an ignored signal stays ignored in children.
var caught = []os.Signal{
	unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGTRAP,
	unix.SIGSTKFLT, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGSYS, unix.SIGPIPE,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU,
}

// killEverything kills what is left. As process 1 that is every process it
// can see; otherwise, in a test, only what it started.
func (p *process1) killEverything() {
	if os.Getpid() == 1 {
		_ = unix.Kill(-1, unix.SIGKILL)
		return
	}
	p.signalAll(unix.SIGKILL)
}

func (p *process1) signalAll(sig unix.Signal) {
	p.batch.signalGroup(sig)
	p.steps.signal(sig, nil)
}
