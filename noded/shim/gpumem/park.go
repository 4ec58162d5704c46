// Package gpumem moves what a job has in the memory of its NVIDIA GPUs into host
// memory, and gives it back. Only the GPUs' driver can do that, and only while the job
// runs. So gpumem parks it before the job is frozen, and gives it back after the job
// resumes.
//
// All of it is parked, or nothing. If the job is frozen or the driver refuses, gpumem
// owes the job its memory and gives it back later.
package gpumem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/checkpoint/procstatus"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/memory"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// nvidiaPrefix begins the names of the files of devices that have their own memory.
const nvidiaPrefix = "/dev/nvidia"

// self is this very program, whatever has replaced it on disk since.
const self = "/proc/self/exe"

// factsPatience bounds a question about GPUs to their driver, which takes seconds if
// it sleeps.
const factsPatience = 30 * time.Second

// How soon gpumem sees that a job runs again to which it owes memory, and how
// soon it asks a driver again that refused.
const (
	repayLook  = 200 * time.Millisecond
	repayPause = 30 * time.Second
)

// Driver parks and unparks: see cuda.Helper.
type Driver interface {
	cuda.Parker
	Start(ctx context.Context) (version int, err error)
}

// Config says whose GPU memory it is.
type Config struct {
	Settings *bundle.Settings
	Own      *pb.NodeAllocation // the allocation's share of this node
	Group    *cgroup.Group
	// Runs says whether the job runs at this moment: neither its lease, nor a
	// suspension, nor a save has it frozen.
	Runs func() bool
	Log  *slog.Logger
}

// Memory is what an allocation does about the memory of its GPUs. nil is that of
// an allocation without any.
type Memory struct {
	Config
	Driver     Driver
	Facts      func(ctx context.Context, ids []string) (cuda.Facts, error)
	IDs        []string      // of the GPUs of this run
	RetryPause time.Duration // after which a driver that refused is asked again

	// busy: something is being parked or given back, and the job must run for
	// that.
	busy atomic.Bool
	kept atomic.Bool // what is parked stays: see Reclaim

	reclaimed atomic.Uint64

	mu      sync.Mutex        // held meanwhile
	parked  cuda.Parked       // what is, or may be
	stopped []int             // with parked: processes that somebody had stopped, by their numbers inside
	moved   map[string]string // GPUs to which it goes back, by those that it was on; nil = the same

	repayer repayer
}

// New is nil for an allocation without such devices. Nothing is started yet.
func New(config Config) *Memory {
	if !slices.ContainsFunc(config.Settings.DeviceFiles, func(d bundle.DeviceFile) bool {
		return strings.HasPrefix(d.Path, nvidiaPrefix) || strings.HasPrefix(d.ContainerPath, nvidiaPrefix)
	}) {
		return nil
	}
	g := &Memory{
		Config: config, RetryPause: repayPause,
		Driver: cuda.NewHelper(cuda.Options{Command: []string{self, cuda.Word}}),
		Facts: func(ctx context.Context, ids []string) (cuda.Facts, error) {
			ctx, cancel := context.WithTimeout(ctx, factsPatience)
			defer cancel()
			return gpu.AskFacts(ctx, []string{self, gpu.FactsWord}, ids)
		},
	}
	for _, device := range config.Own.Devices {
		g.IDs = append(g.IDs, device.DeviceId)
	}
	return g
}

// obstaclesError is why what is on GPUs cannot be parked.
type obstaclesError []cuda.Obstacle

func (e obstaclesError) Error() string {
	texts := make([]string, len(e))
	for i, o := range e {
		texts[i] = o.Property + ": " + o.Reason + ": " + o.Remedy
	}
	return strings.Join(texts, "; ")
}

func refuse(found []cuda.Obstacle) error {
	if len(found) == 0 {
		return nil
	}
	return obstaclesError(found)
}

// errByHand is returned for GPUs whose ids are not the driver's.
var errByHand = errors.New("its GPUs are named in gnoded.toml, so their driver cannot be asked about them: leave [[gpu]] out, and it says which there are")

// Lasts says whether an error of Ask, Park or Reclaim will be the same next time.
func Lasts(err error) bool {
	var obstacles obstaclesError
	return cuda.Lasts(err) || errors.Is(err, errByHand) ||
		errors.As(err, &obstacles) && slices.ContainsFunc(obstacles, func(o cuda.Obstacle) bool { return !o.Passing })
}

// Ask asks the driver whether what programs have on the GPUs of this run can be
// parked, as far as that does not depend on the programs.
func (g *Memory) Ask(ctx context.Context) error {
	if _, err := g.Driver.Start(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(g.IDs, func(id string) bool { return !strings.HasPrefix(id, "GPU-") }) {
		return errByHand
	}
	facts, err := g.Facts(ctx, g.IDs)
	if err != nil {
		return err
	}
	return refuse(cuda.Obstacles(facts, []cuda.Process{{Devices: true}}))
}

// IsBusy says whether something is being parked or given back.
func (g *Memory) IsBusy() bool { return g != nil && g.busy.Load() }

// errFrozen is why nothing can be given back.
var errFrozen = errors.New("the job is frozen")

func (g *Memory) parkAll(ctx context.Context, pids []int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy.Store(true)
	defer g.busy.Store(false)
	if !g.Runs() {
		return errors.New("the job is suspended, or its lease has ended, and what it has on its GPUs can be taken away only while it runs")
	}
	stopped := stoppedOnes(pids)
	users, err := cuda.Users("/proc", pids)
	if err != nil {
		return err
	}
	var parked cuda.Parked
	err = g.whileRunning(users, func() (err error) {
		parked, err = g.Driver.Park(ctx, pids)
		return err
	})
	if err == nil || len(parked.Processes) > 0 {
		g.parked, g.stopped, g.moved = parked, stopped, nil
	}
	if err != nil {
		return fmt.Errorf("take what the job has on its GPUs: %w", err)
	}
	return nil
}

// whileRunning continues those of some processes that somebody has stopped, while the
// driver works with them: its own thread in a process does that work, and a question about
// one that is stopped is not answered. A program may run a little further meanwhile, until
// the driver has its calls wait.
func (g *Memory) whileRunning(users []cuda.Process, do func() error) error {
	var stopped []int
	for _, p := range users {
		if procstatus.Stopped(p.PID) {
			stopped = append(stopped, p.PID)
		}
	}
	if len(stopped) == 0 {
		return do()
	}
	among := func(pid int) bool { return slices.Contains(stopped, pid) }
	if err := g.Group.SignalThose(unix.SIGCONT, among); err != nil {
		return err
	}
	return errors.Join(do(), g.Group.SignalThose(unix.SIGSTOP, among))
}

// giveBack undoes park, if there is anything to undo. It may be called again.
func (g *Memory) giveBack(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.parked.Processes) == 0 {
		return nil
	}
	g.busy.Store(true)
	defer g.busy.Store(false)
	switch {
	case g.kept.Load():
		return errKept
	case !g.Runs():
		return errFrozen
	}
	if err := g.whileRunning(g.parked.Processes, func() error { return g.Driver.Unpark(ctx, g.parked, g.moved) }); err != nil {
		return fmt.Errorf("give the job back what it had on its GPUs: %w", err)
	}
	g.parked, g.stopped, g.moved = cuda.Parked{}, nil, nil
	return nil
}

// repayer is a goroutine that gives back what is owed, at most one.
type repayer struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

func (r *repayer) start(do func(context.Context)) {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r.cancel, r.done = cancel, done
	go func() { defer close(done); do(ctx) }()
}

// stop returns when it has ended.
func (r *repayer) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
		<-r.done
		r.cancel = nil
	}
}

// Park brings what the job has on its GPUs into the host's memory, all of it or
// nothing, if there is room for so many bytes more in an image. It answers what
// the driver says of the GPUs.
func (g *Memory) Park(ctx context.Context, room func(more uint64) error) (facts cuda.Facts, err error) {
	if g == nil {
		return facts, nil
	}
	g.repayer.stop()
	pids, err := g.Group.Procs()
	if err != nil {
		return facts, err
	}
	users, err := cuda.Users("/proc", pids)
	if err != nil {
		return facts, err
	}
	if facts, err = g.Facts(ctx, g.IDs); err != nil {
		return facts, err
	}
	if err := g.mayPark(facts, users); err != nil {
		return facts, err
	}
	if err := room(cuda.Need(facts, users)); err != nil || len(users) == 0 {
		return facts, err
	}
	return facts, g.parkAll(ctx, pids)
}

// mayPark says what prevents that.
func (g *Memory) mayPark(facts cuda.Facts, users []cuda.Process) (err error) {
	if facts.FreeBytes, err = g.freeMemory(); err != nil {
		return err
	}
	return refuse(cuda.Obstacles(facts, users))
}

// freeMemory is how much host memory the job may still use, in bytes.
func (g *Memory) freeMemory() (uint64, error) {
	free, err := memory.Available()
	if err != nil {
		return 0, fmt.Errorf("see how much memory is free: %w", err)
	}
	usage, err := g.Group.Usage()
	if err != nil {
		return 0, fmt.Errorf("see how much memory the job uses: %w", err)
	}
	if limit, used := g.Own.MemoryBytes, usage.CurrentMemoryBytes-min(usage.FileBytes, usage.CurrentMemoryBytes); limit != 0 {
		free = min(free, limit-min(used, limit))
	}
	return max(free, 1), nil // 0 would mean that it is not known
}

// Unpark gives the job back what it had on its GPUs: now, or later if it is frozen.
// What the driver refuses is tried again.
func (g *Memory) Unpark() error {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.Settings.Checkpoint.Timeout())
	defer cancel()
	err := g.giveBack(ctx)
	if err == nil {
		return nil
	}
	g.repayer.start(g.repay)
	if errors.Is(err, errFrozen) || errors.Is(err, errKept) {
		return nil
	}
	return err
}

// repay gives back what is owed, until that is done or ctx ends.
func (g *Memory) repay(ctx context.Context) {
	for pause := repayLook; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		switch err := g.giveBack(ctx); {
		case err == nil:
			g.Log.Info("the job has its GPUs again")
			return
		case errors.Is(err, errFrozen), errors.Is(err, errKept):
			pause = repayLook
		case ctx.Err() == nil:
			g.Log.Error("the job cannot use its GPUs: that is tried again; see nvidia-smi and the kernel log, and cancel the job if it does not end", "error", err)
			pause = g.RetryPause
		}
	}
}

// Close ends what works with the driver.
func (g *Memory) Close() {
	if g == nil {
		return
	}
	g.repayer.stop()
	if err := g.Driver.Close(); err != nil {
		g.Log.Warn("the helper that uses the CUDA driver did not end as it should: see whether it is left (ps), and nvidia-smi", "error", err)
	}
}
