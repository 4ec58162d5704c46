package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// What a job has in the memory of NVIDIA GPUs only their driver can bring into
// the host's, and only while the job runs. So it is parked before the job is
// stopped, and given back after it goes on; what could not be given back, since
// the job stands or the driver refused, is owed and given back later.

// nvidiaPrefix is how the device files begin of devices that have a memory of
// their own.
const nvidiaPrefix = "/dev/nvidia"

// self is this very program, whatever has been installed in its place since.
const self = "/proc/self/exe"

const (
	// factsPatience bounds a question to the driver about GPUs, which takes
	// seconds where it sleeps.
	factsPatience = 30 * time.Second
	// driverPatience bounds the question whether a job's GPUs can be parked.
	driverPatience = 2 * time.Minute
)

// How soon it is seen that a job runs again to which something is owed, and how
// soon a driver that refused is asked again. Variables for tests.
var (
	repayLook  = 200 * time.Millisecond
	repayPause = 30 * time.Second
)

// driver parks and unparks: see cuda.Helper.
type driver interface {
	cuda.Parker
	Start(ctx context.Context) (version int, err error)
}

// gpuMemory is what a part does about the memory of its GPUs.
type gpuMemory struct {
	driver driver
	facts  func(ctx context.Context, ids []string) (cuda.Facts, error)
	ids    []string // of the GPUs of this run

	// busy: something is being parked or given back, for which the job has to
	// run.
	busy atomic.Bool

	mu      sync.Mutex        // held meanwhile
	parked  cuda.Parked       // what is, or may be
	stopped []int             // with parked: processes that somebody had stopped, by their numbers inside
	moved   map[string]string // GPUs to which it goes back, by those that it was on; nil = the same

	repayer repayer
}

// newGPUMemory is nil for a part without such devices. Nothing is started yet.
func newGPUMemory(settings *Settings, own *pb.NodeAllocation) *gpuMemory {
	if !slices.ContainsFunc(settings.DeviceFiles, func(d DeviceFile) bool {
		return strings.HasPrefix(d.Path, nvidiaPrefix) || strings.HasPrefix(d.ContainerPath, nvidiaPrefix)
	}) {
		return nil
	}
	g := &gpuMemory{
		driver: cuda.NewHelper(cuda.Options{Command: []string{self, cuda.Word}}),
		facts: func(ctx context.Context, ids []string) (cuda.Facts, error) {
			ctx, cancel := context.WithTimeout(ctx, factsPatience)
			defer cancel()
			return gpu.AskFacts(ctx, []string{self, gpu.FactsWord}, ids)
		},
	}
	for _, device := range own.Devices {
		g.ids = append(g.ids, device.DeviceId)
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

// lasts says whether an error of ask will be the same next time.
func lasts(err error) bool {
	var obstacles obstaclesError
	return errors.Is(err, cuda.ErrNoDriver) || errors.Is(err, cuda.ErrTooOld) || errors.Is(err, errByHand) ||
		errors.As(err, &obstacles) && slices.ContainsFunc(obstacles, func(o cuda.Obstacle) bool { return !o.Passing })
}

// ask asks the driver whether what programs have on the GPUs of this run can be
// parked, as far as that does not depend on the programs.
func (g *gpuMemory) ask(ctx context.Context) error {
	if _, err := g.driver.Start(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(g.ids, func(id string) bool { return !strings.HasPrefix(id, "GPU-") }) {
		return errByHand
	}
	facts, err := g.facts(ctx, g.ids)
	if err != nil {
		return err
	}
	return refuse(cuda.Obstacles(facts, []cuda.Process{{Devices: true}}))
}

// park brings what the job has on its GPUs into the host's memory, all of it or
// nothing.
func (p *part) park(ctx context.Context, s *save) error {
	g := p.gpus
	if g == nil {
		return nil
	}
	g.repayer.stop()
	pids, err := p.group.Procs()
	if err != nil {
		return err
	}
	users, err := cuda.Users("/proc", pids)
	if err != nil {
		return err
	}
	facts, err := g.facts(ctx, g.ids)
	if err != nil {
		return err
	}
	s.facts = facts
	if facts.FreeBytes, err = p.freeMemory(); err != nil {
		return err
	}
	if err := refuse(cuda.Obstacles(facts, users)); err != nil {
		return err
	}
	if err := p.roomToSave(cuda.Need(facts, users)); err != nil || len(users) == 0 {
		return err
	}
	return g.park(ctx, pids, p.runs)
}

// freeMemory is what the job may still take of the host's memory, in bytes.
func (p *part) freeMemory() (uint64, error) {
	free, err := availableMemory()
	if err != nil {
		return 0, fmt.Errorf("see how much memory is free: %w", err)
	}
	usage, err := p.group.Usage()
	if err != nil {
		return 0, fmt.Errorf("see how much memory the job uses: %w", err)
	}
	if limit, used := p.own.MemoryBytes, usage.CurrentMemoryBytes-min(usage.FileBytes, usage.CurrentMemoryBytes); limit != 0 {
		free = min(free, limit-min(used, limit))
	}
	return max(free, 1), nil // 0 would mean that it is not known
}

// availableMemory is what programs can take of the machine's, in bytes.
func availableMemory() (uint64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kibibytes, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 44)
			return kibibytes << 10, err
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}

// runs says whether the job runs at this moment: neither its lease, nor a
// suspension, nor a save has it stand.
func (p *part) runs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lease.Runs && !p.held
}

// isBusy says whether something is being parked or given back.
func (g *gpuMemory) isBusy() bool { return g != nil && g.busy.Load() }

// errStands is why nothing can be given back.
var errStands = errors.New("the job stands")

func (g *gpuMemory) park(ctx context.Context, pids []int, runs func() bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy.Store(true)
	defer g.busy.Store(false)
	if !runs() {
		return &notNowError{"the job is suspended, or its lease has ended, and what it has on its GPUs can be taken away only while it runs"}
	}
	stopped := stoppedOnes(pids)
	parked, err := g.driver.Park(ctx, pids)
	if err == nil || len(parked.Processes) > 0 {
		g.parked, g.stopped, g.moved = parked, stopped, nil
	}
	if err != nil {
		return fmt.Errorf("take what the job has on its GPUs: %w", err)
	}
	return nil
}

// giveBack undoes park, if there is anything to undo. It may be called again.
func (g *gpuMemory) giveBack(ctx context.Context, runs func() bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.parked.Processes) == 0 {
		return nil
	}
	g.busy.Store(true)
	defer g.busy.Store(false)
	if !runs() {
		return errStands
	}
	if err := g.driver.Unpark(ctx, g.parked, g.moved); err != nil {
		return fmt.Errorf("give the job back what it had on its GPUs: %w", err)
	}
	g.parked, g.stopped, g.moved = cuda.Parked{}, nil, nil
	return nil
}

// unpark gives the job back what it had on its GPUs: now, or later if it stands.
// What the driver refuses is tried again.
func (p *part) unpark() error {
	g := p.gpus
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.settings.Checkpoint.timeout())
	defer cancel()
	err := g.giveBack(ctx, p.runs)
	if err == nil {
		return nil
	}
	g.repayer.start(func(ctx context.Context) { p.repay(ctx) })
	if errors.Is(err, errStands) {
		return nil
	}
	return err
}

// repay gives back what is owed, until that is done or ctx ends.
func (p *part) repay(ctx context.Context) {
	for pause := repayLook; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		switch err := p.gpus.giveBack(ctx, p.runs); {
		case err == nil:
			p.log.Info("the job has its GPUs again")
			return
		case errors.Is(err, errStands):
			pause = repayLook
		case ctx.Err() == nil:
			p.log.Error("the job cannot use its GPUs: that is tried again; see nvidia-smi and the kernel log, and cancel the job if it does not end", "error", err)
			pause = repayPause
		}
	}
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

// closeGPUs ends what works with the driver, with the part.
func (p *part) closeGPUs() {
	if p.gpus == nil {
		return
	}
	p.gpus.repayer.stop()
	if err := p.gpus.driver.Close(); err != nil {
		p.log.Warn("the helper that uses the CUDA driver did not end as it should: see whether it is left (ps), and nvidia-smi", "error", err)
	}
}
