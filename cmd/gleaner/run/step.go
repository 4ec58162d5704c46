package run

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
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
	inv         *option.Invocation
	shape       *jobShape
	plan        []nodeTasks
	dialer      *stepDialer
	signals     <-chan os.Signal
	gpusPerTask uint32 // that each task sees; 0 = all

	directory string
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
	ends      map[taskEnd][]uint32 // not reported yet
	ending    bool                 // told to end
	interrupt time.Time            // the last one

	gather, kill, giveUp <-chan time.Time
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
	return slices.IndexFunc(r.plan, func(place nodeTasks) bool { return place.ranks[len(place.ranks)-1] >= rank })
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
	}()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	launch, err := r.launchOrder()
	if err != nil {
		return err
	}
	events := make(chan nodeEvent)
	r.open, r.unstarted = len(r.plan), len(r.plan)
	r.over, r.started = make([]bool, len(r.plan)), make([]bool, len(r.plan))
	r.ends = map[taskEnd][]uint32{}
	for place, client := range r.clients {
		go follow(ctx, place, client, r.launchOn(place, launch), events)
	}
	r.attend(events)
	r.report()
	if err := r.outputs.close(); err != nil {
		r.say("error: %v", err)
		r.status = max(r.status, 1)
	}
	return option.Exit(r.status)
}

// prepare connects to every node and gets the number of the step.
func (r *stepRunner) prepare(ctx context.Context) error {
	var err error
	if r.directory, err = os.Getwd(); err != nil {
		return fmt.Errorf("the current directory cannot be told: %w; name one with --chdir", err)
	}
	if given := r.inv.Text(jobspec.OptChdir); given != "" {
		r.directory = inDirectory(r.directory, given)
	}
	for _, place := range r.plan {
		client, err := r.dialer.dial(ctx, place.node)
		if err != nil {
			return err
		}
		r.clients = append(r.clients, client)
	}
	// Numbers come from the node of the batch script, the job's first.
	numbers := r.clients[0]
	if r.plan[0].jobIndex != 0 {
		if numbers, err = r.dialer.dial(ctx, r.shape.nodes[0]); err != nil {
			return err
		}
		defer numbers.Close()
	}
	err = within(startTime, numbers, func() (err error) {
		r.number, err = numbers.NewStep()
		return err
	})
	if err != nil {
		return option.Fail(1, "Unable to create step for job %s: %w", r.shape.job, err)
	}
	if r.inv.Given(jobspec.OptVerbose) {
		for _, place := range r.plan {
			r.say("step %s.%d: %s: %s", r.shape.job, r.number, place.node, taskWords(place.ranks))
		}
	}
	return nil
}

// launchOrder is what all nodes are told alike.
func (r *stepRunner) launchOrder() (step.Launch, error) {
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
		Step: r.number, Argv: r.inv.Operands, Env: environment, Cwd: step.Bytes(r.directory), Umask: umask,
	}
	launch.Input, launch.InputTask = input.inputMode()
	launch.GPUsPerTask = r.gpusPerTask
	return launch, nil
}

// launchOn adds the tasks of one node. SLURM_NODEID counts the nodes of the
// step, as in Slurm.
func (r *stepRunner) launchOn(place int, launch step.Launch) *step.Launch {
	id := "SLURM_NODEID=" + strconv.Itoa(place)
	for local, rank := range r.plan[place].ranks {
		launch.Tasks = append(launch.Tasks, step.Task{Rank: rank, Local: uint32(local), Env: step.Strings{id}})
	}
	return &launch
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
