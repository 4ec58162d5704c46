package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// loadClients submit all the time, each so often.
	loadClients = 4
	loadEvery   = 20 * time.Millisecond
	// runners are jobs that run through all kills.
	runners = 4
	// killPatience bounds what has to be well again after a kill.
	killPatience = time.Minute
)

// failover kills the leading controller of three again and again, under load,
// and measures how long nothing can be submitted.
func (b *bench) failover(ctx context.Context, round int) {
	on := side{ours, func(ctx context.Context, directory string) (system, error) {
		return ignoreNil(startDevelopment(ctx, b.options.binaries, directory, 3, 2))
	}}
	b.on(ctx, on, fmt.Sprintf("the leader is killed %d times", b.sizes.kills), []measure{failoverSubmit, failoverNodes}, func(ctx context.Context, on system) error {
		return b.killLeaders(ctx, on.(*development), round)
	})
}

func (b *bench) killLeaders(ctx context.Context, d *development, round int) error {
	run, err := startRunners(ctx, d)
	if err != nil {
		return err
	}
	ledger := &ledger{accepted: map[string]uint32{}}
	end := background(ctx, func(ctx context.Context) error { return ledger.load(ctx, d.targets) })
	for kill := range b.sizes.kills {
		if err := b.killLeader(ctx, d, ledger, round); err != nil {
			return errors.Join(fmt.Errorf("kill %d: %w", kill+1, err), end())
		}
	}
	if err := end(); err != nil {
		return err
	}
	jobs, err := d.jobsOf(ctx)
	if err != nil {
		return err
	}
	return errors.Join(ledger.check(jobs), run.check(jobs))
}

// killLeader kills once: how long until a submission that begins at that
// moment is accepted, and until every node has a session again.
func (b *bench) killLeader(ctx context.Context, d *development, ledger *ledger, round int) error {
	pid := 0
	err := until(ctx, "a controller to lead", killPatience, 10*time.Millisecond, func() (bool, error) {
		pid = d.controller()
		return pid != 0, nil
	})
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	name := uuid.NewString()
	number, err := run(ctx, d, submitVerb, "--parsable", "--hold", "--job-name="+name, "--chdir=/", "--wrap=true")
	if err != nil {
		return err
	}
	b.table.add(round, failoverSubmit, ours, milliseconds(time.Since(begin)))
	id, err := strconv.ParseUint(strings.TrimSpace(number), 10, 32)
	if err != nil {
		return err
	}
	ledger.add(name, uint32(id))
	err = until(ctx, "the nodes to be connected again", killPatience, 10*time.Millisecond, func() (bool, error) { return d.nodesAnswer(ctx), nil })
	if err != nil {
		return err
	}
	b.table.add(round, failoverNodes, ours, milliseconds(time.Since(begin)))
	err = until(ctx, "the killed controller to be back", killPatience, 50*time.Millisecond, func() (bool, error) { return d.answering(ctx) == len(d.targets), nil })
	if err != nil {
		return err
	}
	select { // at another moment of its life each time
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Second + rand.N(time.Second)):
		return nil
	}
}

// ledger is what clients were told.
type ledger struct {
	mu       sync.Mutex
	accepted map[string]uint32 // name of the job -> its number
}

func (l *ledger) add(name string, number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted[name] = number
}

// load submits until ctx ends. What is not answered is asked again, with the
// same request id, until it is.
func (l *ledger) load(ctx context.Context, targets []string) error {
	var group errgroup.Group
	for client := range loadClients {
		group.Go(func() error {
			controllers, err := dial.Open(slices.Concat(targets[client%len(targets):], targets[:client%len(targets)]), "")
			if err != nil {
				return err
			}
			defer controllers.Close()
			for ctx.Err() == nil {
				request := smallJob(load{}, 0)
				request.Spec.Name, request.Spec.Hold = uuid.NewString(), true
				number, err := submitUntilAnswered(pb.NewControllerClient(controllers), request)
				if err != nil {
					return fmt.Errorf("submit under load: %w", err)
				}
				l.add(request.Spec.Name, number)
				time.Sleep(loadEvery)
			}
			return nil
		})
	}
	return group.Wait()
}

// submitUntilAnswered does not end with the load: each of its requests must be
// known to be accepted, once.
func submitUntilAnswered(client pb.ControllerClient, request *pb.SubmitRequest) (uint32, error) {
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		answer, err := client.Submit(ctx, request)
		cancel()
		code := status.Code(err)
		switch {
		case err == nil:
			return answer.GetJobId(), nil
		case code != codes.Unavailable && code != codes.DeadlineExceeded, time.Since(begin) > killPatience:
			return 0, err
		}
	}
}

// check finds what was lost or doubled.
func (l *ledger) check(jobs []*pb.Job) error {
	found := map[string][]uint32{}
	for _, job := range jobs {
		found[job.GetSpec().GetName()] = append(found[job.GetSpec().GetName()], job.GetId().GetJob())
	}
	lost, doubled := 0, 0
	for name, number := range l.accepted {
		switch numbers := found[name]; {
		case len(numbers) > 1:
			doubled++
		case len(numbers) == 0 || numbers[0] != number:
			lost++
		}
	}
	if lost+doubled > 0 {
		return fmt.Errorf("of %d accepted jobs %d are lost and %d doubled", len(l.accepted), lost, doubled)
	}
	if len(l.accepted) == 0 {
		return errors.New("nothing was accepted")
	}
	return nil
}

// runningJobs are jobs that run through it all, and write down that they start.
type runningJobs struct {
	directory string
	before    map[uint32]string
}

func startRunners(ctx context.Context, d *development) (*runningJobs, error) {
	r := &runningJobs{directory: d.path("runners"), before: map[uint32]string{}}
	if err := os.MkdirAll(r.directory, 0o755); err != nil {
		return nil, err
	}
	for range runners {
		_, err := run(ctx, d, submitVerb, "-Q", "--job-name=runner", "--mem=16M", "--output=/dev/null", "--chdir="+r.directory,
			"--wrap=echo start >> started.$SLURM_JOB_ID; while true; do sleep 1; done")
		if err != nil {
			return nil, err
		}
	}
	return r, until(ctx, "the jobs to run", startPatience, 50*time.Millisecond, func() (bool, error) {
		jobs, err := d.jobsOf(ctx)
		for _, job := range jobs {
			if job.GetState() == pb.JobState_JOB_STATE_RUNNING && !job.GetConfiguring() {
				r.before[job.GetId().GetJob()] = runOf(job)
			}
		}
		return len(r.before) == runners, err
	})
}

// runOf is what is the same as long as a run continues.
func runOf(job *pb.Job) string {
	return fmt.Sprint(job.GetState(), job.GetStartMs(), job.GetRestartCount(), job.GetAllocation())
}

func (r *runningJobs) check(jobs []*pb.Job) error {
	after := map[uint32]string{}
	for _, job := range jobs {
		after[job.GetId().GetJob()] = runOf(job)
	}
	var all []error
	for number, before := range r.before {
		if after[number] != before {
			all = append(all, fmt.Errorf("job %d ran as %s and is %q now", number, before, after[number]))
		}
		text, err := os.ReadFile(filepath.Join(r.directory, fmt.Sprintf("started.%d", number)))
		if err != nil || string(text) != "start\n" {
			all = append(all, fmt.Errorf("job %d started %d times, not once (%w)", number, strings.Count(string(text), "\n"), err))
		}
	}
	return errors.Join(all...)
}
