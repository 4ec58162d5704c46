package run

import (
	"context"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// Variables, so that tests need not wait as long as users may have to.
var (
	// startTime is how long a node may take to start its tasks.
	startTime = time.Minute
	// giveUpTime is how long SIGKILL may take before grun leaves.
	giveUpTime = 15 * time.Second
	// gatherTime is how long ends of tasks are gathered into one message.
	gatherTime = 100 * time.Millisecond
)

// maxWaitingSignals bounds the signals that wait for tasks to start.
const maxWaitingSignals = 16

// stepRunner runs one step.
type stepRunner struct {
	inv     *option.Invocation
	shape   *jobShape
	request *grant.Request
	gpuBind jobspec.GPUBind
	// programs are those of --multi-prog; nil = all tasks run the operands.
	programs programs
	// waitAfter is how long the others may run after the first task has ended; 0 = as
	// long as they like.
	waitAfter time.Duration
	dialer    *stepDialer
	signals   <-chan os.Signal

	holder *step.Client // has the step's part of the job; may be one of clients
	plan   []nodeTasks

	directory string
	port      uint16 // of the first node, at which the tasks may meet; 0 = none
	number    uint32
	clients   []*step.Client // in the order of plan
	outputs   *outputs
	inputs    []inputSource // not read before all tasks have started

	open      int // nodes that are not done
	unstarted int // nodes that have not said Started
	over      []bool
	started   []bool
	waiting   []syscall.Signal // for the nodes that have not started
	status    int
	fences    map[int]*step.Fence  // of the nodes whose tasks are at a fence
	ends      map[taskEnd][]uint32 // not reported yet
	ending    bool                 // told to end
	interrupt time.Time            // the last one

	gather, kill, giveUp <-chan time.Time
	leftBehind           <-chan time.Time // --wait is over
}

// taskEnd is how and where tasks ended.
type taskEnd struct {
	place int // in the plan
	how   string
}

// nodeEvent is what a node said, or the error that ended its connection.
type nodeEvent struct {
	place   int
	message step.Message
	err     error
}

func (r *stepRunner) tasks() int {
	total := 0
	for _, place := range r.plan {
		total += len(place.ranks)
	}
	return total
}

// nodeOf is the place in the plan where a task runs.
func (r *stepRunner) nodeOf(rank uint32) int {
	return slices.IndexFunc(r.plan, func(place nodeTasks) bool {
		_, here := slices.BinarySearch(place.ranks, rank)
		return here
	})
}

// run starts the step and stays with it to its end. The error carries the
// exit status.
func (r *stepRunner) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.dialer.close()
	defer func() {
		for _, client := range r.clients {
			_ = client.Close()
		}
		if r.holder != nil {
			_ = r.holder.Close()
		}
	}()
	for _, prepare := range []func() error{r.workDirectory, func() error { return r.obtain(ctx) }, func() error { return r.connect(ctx) }, r.findPort} {
		if err := prepare(); err != nil {
			return err
		}
	}
	argv, err := r.broadcast(ctx)
	if err != nil {
		return err
	}
	launch, err := r.launchOrder(argv)
	if err != nil {
		return err
	}
	events := make(chan nodeEvent)
	r.open, r.unstarted = len(r.plan), len(r.plan)
	r.over, r.started = make([]bool, len(r.plan)), make([]bool, len(r.plan))
	r.ends = map[taskEnd][]uint32{}
	orders := make([]*step.Launch, len(r.plan))
	for place := range r.plan {
		if orders[place], err = r.launchOn(place, launch); err != nil {
			return err
		}
	}
	for place, client := range r.clients {
		go follow(ctx, place, client, orders[place], events)
	}
	r.attend(events)
	r.release()
	r.report()
	if err := r.outputs.close(); err != nil {
		r.say("error: %v", err)
		r.status = max(r.status, 1)
	}
	return option.Exit(r.status)
}

// launchOrder is what all nodes are told alike.
func (r *stepRunner) launchOrder(argv []string) (step.Launch, error) {
	umask, err := jobspec.FileMask("")
	if err != nil {
		return step.Launch{}, err
	}
	environment, err := r.environment(r.number, umask)
	if err != nil {
		return step.Launch{}, err
	}
	input, err := r.prepareStreams(r.number)
	if err != nil {
		return step.Launch{}, err
	}
	launch := step.Launch{
		Step: r.number, Argv: argv, Env: environment, Cwd: step.Bytes(r.directory), Umask: umask,
	}
	switch r.mpi(argv) {
	case mpiPMI2:
		launch.PMI = r.pmi()
	case mpiPMIx:
		launch.PMIx = r.pmix()
	}
	launch.Input, launch.InputTask = input.inputMode()
	if launch.CPUBind, err = readCPUBind(r.inv.Values, r.request.CPUsPerTask); err != nil {
		return step.Launch{}, err
	}
	return launch, nil
}

// launchOn adds the tasks of one node. SLURM_NODEID counts the nodes of the
// step, as in Slurm.
func (r *stepRunner) launchOn(place int, launch step.Launch) (*step.Launch, error) {
	id := "SLURM_NODEID=" + strconv.Itoa(place)
	here := &r.plan[place]
	launch.Share = &step.Share{CPUs: here.share.CPUs, GPUs: here.share.GPUs}
	if launch.PMIx != nil {
		ofNode := *launch.PMIx
		ofNode.Here = place
		launch.PMIx = &ofNode
	}
	for local, rank := range here.ranks {
		gpus, err := r.gpuBind.OfTask(local, len(here.share.GPUs))
		if err != nil {
			return nil, err
		}
		argv, err := r.programs.ofTask(rank)
		if err != nil {
			return nil, err
		}
		launch.Tasks = append(launch.Tasks, step.Task{Rank: rank, Local: uint32(local), Env: append(ranksOf(rank, local, len(here.ranks)), id), GPUs: gpus, Argv: argv})
	}
	return &launch, nil
}

// follow launches the tasks of one node and passes on what it says, to the
// last message.
func follow(ctx context.Context, place int, client *step.Client, launch *step.Launch, events chan<- nodeEvent) {
	send := func(event nodeEvent) {
		select {
		case events <- event:
		case <-ctx.Done():
		}
	}
	if err := client.Launch(launch); err != nil {
		send(nodeEvent{place: place, err: err})
		return
	}
	for ctx.Err() == nil {
		message, err := client.Next()
		send(nodeEvent{place, message, err})
		if err != nil {
			return
		}
		switch message.(type) {
		case *step.Done, *step.Failed:
			return
		}
	}
}
