package shim

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// part is the supervisor's state.
type part struct {
	dir      directory
	order    *pb.StartPart
	settings *Settings
	log      *slog.Logger
	own      *pb.NodeAllocation // of this node
	index    int                // of this node in the allocation
	batch    bool               // this node runs the script
	user     container.User
	group    *cgroup.Group
	relay    *relay
	lines    lineTable
	attached attachTable
	// questions are those to process 1 that are under way; all of them are taken
	// while none may be.
	questions *semaphore.Weighted
	saver     saver // once the container is up
	stores    *images.Stores
	images    imageStore
	image     imageDir   // from which it goes on
	gpus      *gpuMemory // nil = no device has a memory of its own

	freezer sync.Mutex // held while the kernel is told that the job is to stand or run

	startContext context.Context // ends when the part is to end
	stopStart    context.CancelFunc
	wake         chan struct{} // something that supervise looks at has changed
	leaseTimer   *boottime.Timer
	warning      *warning // supervise's

	mu         sync.Mutex
	held       bool // the job stands for a save
	hungUp     bool // nothing of the supervisor's is connected with the job
	saves      saves
	changed    chan struct{} // closed and replaced when ready or ended changes
	ready      bool
	awaits     bool  // it is restored, and stands until the other parts are too
	released   bool  // the script may run
	releasedMS int64 // Unix milliseconds since when
	ended      *pb.PartEnded
	stuck      *pb.LeftOver // what does not end though it should; nil = nothing
	ending     *ending
	initEnded  initStatus
	limitS     uint32 // the time limit in force
	lease      lease.Lease
	// suspendNumber is the highest of the orders to stand still or to go on.
	suspendNumber uint32
	door          *door // nil while the job's socket is not served
}

// ending is what was asked for first; its deadline may be brought forward.
type ending struct {
	cause    pb.EndCause
	detail   string
	askedMS  int64
	deadline time.Time // of SIGKILL
	// termAgain is when TERM is sent once more; zero = not. A job that is
	// preempted gets the first as a warning.
	termAgain time.Time
}

// initStatus is how process 1 ended.
type initStatus struct {
	code   int
	signal unix.Signal
}

func newPart(d directory, log *slog.Logger) (*part, error) {
	order, err := d.order()
	if err != nil {
		return nil, err
	}
	settings, err := d.settings()
	if err != nil {
		return nil, err
	}
	index := slices.IndexFunc(order.Allocation, func(a *pb.NodeAllocation) bool { return a.Node == order.Node })
	if index < 0 {
		return nil, fmt.Errorf("%w: the order's allocation does not name node %q", ErrBadPart, order.Node)
	}
	warning, err := newWarning(order.Spec.GetSignal())
	if err != nil {
		return nil, err
	}
	timer, err := boottime.NewTimer()
	if err != nil {
		return nil, err
	}
	p := &part{
		leaseTimer: timer, warning: warning, lease: lease.Lease{Fence: order.LeaseAction == lease.Fence, Begun: boottime.Now()},
		dir: d, order: order, settings: settings, log: log.With("node", order.Node),
		own: order.Allocation[index], index: index, batch: order.Node == order.BatchHost,
		limitS: order.TimeLimitS,
		user:   userOf(order.Owner), wake: make(chan struct{}, 1), changed: make(chan struct{}),
		questions: semaphore.NewWeighted(maxQuestions), stores: images.New(settings.Checkpoint.Stores),
	}
	p.images = storedImages{p.stores}
	p.group = cgroup.New(path.Join(settings.CgroupParent, d.id()), cgroup.Limits{
		CPUs: settings.RealCPUs, CPUWeight: len(p.own.CpuIds), MemoryBytes: p.own.MemoryBytes,
		Pids:    settings.maxProcesses(),
		Devices: container.AllowedDevices(settings.devices()), DenyOtherDevices: true,
	})
	p.gpus = newGPUMemory(settings, p.own)
	p.relay = newRelay(p)
	p.startContext, p.stopStart = context.WithCancel(context.Background())
	return p, nil
}

func userOf(id *pb.Identity) container.User {
	return container.User{
		UID: id.GetUid(), GID: id.GetGid(), Groups: id.GetGroups(), Name: id.GetUser(), Group: id.GetGroup(),
		Home: id.GetHome(), Shell: id.GetShell(),
	}
}

// end asks the part to end. What was asked first is the cause; a later call
// can only bring the SIGKILL forward.
func (p *part) end(cause pb.EndCause, grace time.Duration, detail string) {
	p.endWarned(cause, 0, grace, detail)
}

// endWarned asks the part to end, and has it sent TERM once more after a while
// if that is before the end of its grace.
func (p *part) endWarned(cause pb.EndCause, again, grace time.Duration, detail string) {
	p.mu.Lock()
	now := time.Now()
	deadline := now.Add(grace)
	switch {
	case p.ending == nil:
		p.ending = &ending{cause: cause, detail: detail, askedMS: now.UnixMilli(), deadline: deadline}
		if again > 0 && again < grace {
			p.ending.termAgain = now.Add(again)
		}
	case deadline.Before(p.ending.deadline):
		p.ending.deadline = deadline
		if !p.ending.termAgain.IsZero() {
			p.ending.termAgain = now // it was a warning until now
		}
	}
	p.mu.Unlock()
	p.stopStart()
	p.poke()
}

func (p *part) endAsked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending != nil
}

// poke makes supervise look again.
func (p *part) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *part) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *part) setReady(running *container.Container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = true
	p.saver = &containerSaver{engine: p.settings.Checkpoint.Engine, container: running, dir: p.dir}
	if !p.released && (!p.order.Gang || !p.batch) {
		p.release()
	}
	p.saves.grade = p.firstGrade()
	p.notify()
	if p.saves.grade.Reason == askingDriver {
		go p.gradeGPUs()
	}
}

// release notes that the script may run. The caller holds p.mu.
func (p *part) release() {
	p.released, p.releasedMS = true, time.Now().UnixMilli()
}

// setStuck tells the watchers what does not end, or that nothing is left of it.
func (p *part) setStuck(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil && p.stuck == nil, err != nil && p.stuck != nil && p.stuck.Error == err.Error():
		return
	case err == nil:
		p.stuck = nil
	default:
		p.stuck = &pb.LeftOver{What: "cgroup " + p.group.Path(), Error: err.Error()}
		p.log.Error("the job does not end: see what its processes wait for (ps, dmesg); a device or file server that hangs needs a reset", "error", err)
	}
	p.notify()
}

func (p *part) setEnded(result *pb.PartEnded) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = result
	p.notify()
}

// askStep puts one question to process 1.
func (p *part) askStep(ctx context.Context, ask func(*step.Client) error) error {
	if err := p.questions.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("process 1 of the job is not asked while the job is being saved, or is busy: try again: %w", err)
	}
	defer p.questions.Release(1)
	conn, err := p.dialStep(ctx)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	client := step.NewClient(conn)
	defer client.Close()
	return ask(client)
}

func (p *part) closeJobSockets() {
	p.mu.Lock()
	door := p.door
	p.door = nil
	p.mu.Unlock()
	if door != nil {
		door.close(0)
	}
	p.relay.close()
}

func killWait(order *pb.StartPart) time.Duration {
	return time.Duration(order.KillWaitS) * time.Second
}

func memoryText(bytes uint64) string { return spec.FormatSize(bytes) }
