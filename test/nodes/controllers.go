package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// clients bounds the submissions that are under way at once.
const clients = 64

// controllers are three of them, as "gleaner dev" runs them: one that is killed is started
// again.
type controllers struct {
	binaries  string
	directory string
	targets   []string
	daemon    *exec.Cmd
	accepted  atomic.Int64 // submissions of submitAt
}

func startControllers(ctx context.Context, binaries string) (_ *controllers, err error) {
	directory, err := os.MkdirTemp("/var/tmp", "gleaner-nodes-")
	if err != nil {
		return nil, err
	}
	c := &controllers{binaries: binaries, directory: directory}
	log, err := os.Create(c.path("dev.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.daemon = exec.Command(filepath.Join(binaries, "gleaner"), "dev", "--dir", directory, "--controllers", "3", "--nodes", "1", "--gpus-per-node", "0", "--cpus-per-node", "1", "--log-level", "warn")
	c.daemon.Stdout, c.daemon.Stderr = log, log
	c.daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.daemon.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}
	for _, label := range []string{"gctld", "gctld2", "gctld3"} {
		c.targets = append(c.targets, "unix://"+c.path(label+".sock"))
	}
	err = until(ctx, "the controllers", func() bool {
		text, _ := os.ReadFile(c.path("dev.log")) // until it is there
		return bytes.Contains(text, []byte("ready\n"))
	})
	if err != nil {
		text, _ := os.ReadFile(c.path("dev.log"))
		return nil, errors.Join(fmt.Errorf("%w: %s", err, text), c.stop())
	}
	return c, nil
}

func (c *controllers) path(name string) string { return filepath.Join(c.directory, name) }

func (c *controllers) stop() error {
	err := c.daemon.Process.Signal(syscall.SIGTERM)
	_ = c.daemon.Wait() // it ends by a signal
	return errors.Join(err, os.RemoveAll(c.directory))
}

func until(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %v for %s", patience, what))
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func (c *controllers) ping(ctx context.Context, target string) *pb.PingResponse {
	connection, err := dial.Dial([]string{target}, "")
	if err != nil {
		return nil
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	answer, err := pb.NewControllerClient(connection).Ping(ctx, &pb.PingRequest{})
	if err != nil {
		return nil
	}
	return answer
}

// leader is the process of the controller that leads, when one does.
func (c *controllers) leader(ctx context.Context) (pid int, err error) {
	err = until(ctx, "a controller to lead", func() bool {
		for _, target := range c.targets {
			if c.ping(ctx, target).GetRole() != "leader" {
				continue
			}
			pid, err = pidOf(target)
			return err == nil
		}
		return false
	})
	return pid, err
}

// allAnswer waits until each controller answers.
func (c *controllers) allAnswer(ctx context.Context) error {
	return until(ctx, "the killed controller", func() bool {
		for _, target := range c.targets {
			if c.ping(ctx, target) == nil {
				return false
			}
		}
		return true
	})
}

// measureFor prints what the leading controller uses while something is done.
func (c *controllers) measureFor(ctx context.Context, when string, long time.Duration, do func(context.Context) error) error {
	pid, err := c.leader(ctx)
	if err != nil {
		return err
	}
	before, err := used(pid)
	if err != nil {
		return err
	}
	begin := time.Now()
	bounded, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	if err := do(bounded); err != nil {
		return err
	}
	<-bounded.Done()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	after, err := used(pid)
	if err != nil {
		return err
	}
	row("gctld "+when+": processor", 100*(after.processor-before.processor).Seconds()/time.Since(begin).Seconds(), "% of a core")
	row("gctld "+when+": memory", float64(after.memory)/(1<<20), "MiB")
	return nil
}

type use struct {
	processor time.Duration
	memory    int64 // bytes that are resident
}

// used reads what a process has used: proc_pid_stat(5).
func used(pid int) (use, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return use{}, err
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 22 {
		return use{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	pages, err3 := strconv.ParseInt(fields[21], 10, 64)
	const tick = 10 * time.Millisecond // USER_HZ is 100
	return use{time.Duration(user+system) * tick, pages * int64(os.Getpagesize())}, errors.Join(err1, err2, err3)
}

func request() *pb.SubmitRequest {
	return &pb.SubmitRequest{
		RequestId: uuid.NewString(),
		Spec: &pb.JobSpec{
			Name: "nodes", WorkDirectory: "/", Script: []byte("#!/bin/sh\n"), CpusPerTask: 1,
			Gpus: []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 1}},
		},
	}
}

// submitAt submits so many jobs a second until ctx ends.
func (c *controllers) submitAt(ctx context.Context, rate int) error {
	connection, err := dial.Open(c.targets, "")
	if err != nil {
		return err
	}
	defer connection.Close()
	client, free := pb.NewControllerClient(connection), semaphore.NewWeighted(clients)
	var group errgroup.Group
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if free.Acquire(ctx, 1) != nil {
				break
			}
			group.Go(func() error {
				defer free.Release(1)
				call, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
				defer cancel()
				_, err := client.Submit(call, request())
				if err == nil {
					c.accepted.Add(1)
				}
				return err
			})
		}
	}
	return group.Wait()
}

// submitOnce submits a job that is held, as a user does: by a process of its own, which tries
// until it is accepted. It returns when that was, as another process says, because in this one
// thousands of nodes are about to come back.
func (c *controllers) submitOnce(ctx context.Context) (accepted time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", `"$0" submit --hold --chdir=/ --wrap=true >&2 && date +%s.%N`, filepath.Join(c.binaries, "gleaner"))
	command.Env = append(os.Environ(), dial.EnvironmentController+"="+strings.Join(c.targets, ","))
	said, err := command.Output()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		return accepted, fmt.Errorf("submit a job: %w: %s", err, exit.Stderr)
	}
	if err != nil {
		return accepted, err
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(string(said)), 64)
	return time.UnixMicro(int64(seconds * 1e6)), err
}

// spent is the processor time that each controller has used, by process.
type spent map[int]time.Duration

func (c *controllers) spent() spent {
	s := make(spent)
	for _, target := range c.targets {
		if pid, err := pidOf(target); err == nil {
			if use, err := used(pid); err == nil {
				s[pid] = use.processor
			}
		}
	}
	return s
}

// since is what all of them have used since a time. What one has used that was killed
// meanwhile is not counted.
func (s spent) since(before spent) (total time.Duration) {
	for pid, now := range s {
		total += now - before[pid]
	}
	return total
}

// ownProcessor is the processor time of this process, in which the nodes are.
func ownProcessor() time.Duration {
	use, err := used(os.Getpid())
	if err != nil {
		return 0
	}
	return use.processor
}

// pidOf is the process of the controller with a socket.
func pidOf(target string) (int, error) {
	text, err := os.ReadFile(strings.TrimSuffix(strings.TrimPrefix(target, "unix://"), ".sock") + ".pid")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
