package shim

import (
	"context"
	"log/slog"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/network"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/gpumem"
	"github.com/gleaner-hpc/gleaner/noded/shim/imagedir"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	"github.com/gleaner-hpc/gleaner/noded/shim/relay"
	"github.com/gleaner-hpc/gleaner/noded/shim/save"
	"github.com/gleaner-hpc/gleaner/noded/supervise"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// alloc is the supervisor's state.
type alloc struct {
	job      *prepare.Job // what its container is made of
	dir      bundle.Dir
	order    *pb.StartAlloc
	settings *bundle.Settings
	log      *slog.Logger
	own      *pb.NodeAllocation // of this node
	batch    bool               // this node runs the script
	group    *cgroup.Group
	relay    *relay.Relay
	stores   *images.Stores
	maker    *save.Maker
	image    *imagedir.Dir  // from which it resumes
	gpus     *gpumem.Memory // nil = no device has a memory of its own
	gang     *gangEnd       // nil = the job has none between its nodes
	out      *network.Out   // nil = the job has the node's network

	freezer sync.Mutex // held while the kernel is told to freeze or thaw the job
	parking *parking   // what carries out core.Park

	startContext context.Context // ends when somebody asks for the allocation's end
	stopStart    context.CancelFunc
	wake         chan struct{} // something that supervise looks at has changed
	leaseTimer   *boottime.Timer
	warning      *warning // supervise's

	mu        sync.Mutex
	core      supervise.Alloc
	saving    *saving       // the work on core.Now
	savesTail chan struct{} // closed when all work on saves that was begun is over
	// criuReleased is when CRIU last let go of the job's processes in the middle of a
	// dump; zero = never.
	criuReleased time.Time
	changed      chan struct{} // closed and replaced when ready or ended changes
	releasedMS   int64         // Unix milliseconds since when
	ended        *pb.AllocEnded
	inside       string       // what keeps it from being saved inside of its container; "" = no other container
	stuck        *pb.LeftOver // what should have ended and has not; nil = nothing
	ending       *ending
	initEnded    initStatus
	limitS       uint32 // the time limit in force
}

// ending is the first request to end; its deadline may be brought forward.
type ending struct {
	cause    pb.EndCause
	detail   string
	asked    time.Time
	deadline time.Time // of SIGKILL
	// termAgain is when TERM is sent once more; zero = never. The first TERM warns a
	// job that is preempted.
	termAgain time.Time
}

// initStatus is how process 1 ended.
type initStatus struct {
	code   int
	signal unix.Signal
}

func newAlloc(d bundle.Dir, log *slog.Logger) (*alloc, error) {
	job, err := prepare.New(d, log)
	if err != nil {
		return nil, err
	}
	order, settings := job.Order, job.Settings
	warning, err := newWarning(order.Spec.GetSignal())
	if err != nil {
		return nil, err
	}
	warning.resume(order)
	timer, err := boottime.NewTimer()
	if err != nil {
		return nil, err
	}
	p := &alloc{
		leaseTimer: timer, warning: warning,
		job: job, dir: d, order: order, settings: settings, log: job.Log, own: job.Own, batch: job.Batch,
		limitS: order.TimeLimitS,
		wake:   make(chan struct{}, 1), changed: make(chan struct{}),
		stores: images.New(settings.Checkpoint.Stores),
	}
	p.core = supervise.Alloc{
		ID: order.Alloc, Gang: order.Gang, Host: p.batch, Restored: order.Restore != nil,
		Lease: lease.Lease{Fence: order.LeaseAction == lease.Fence, Begun: boottime.Now()},
	}
	p.group = cgroup.New(path.Join(settings.CgroupParent, d.ID()), cgroup.Limits{
		CPUs: settings.RealCPUs, CPUWeight: len(p.own.CpuIds), MemoryBytes: p.own.MemoryBytes,
		Pids:    settings.ProcessLimit(len(p.own.CpuIds)),
		Devices: p.devices(), DenyOtherDevices: true,
	})
	p.gpus = p.newGPUs()
	if p.parking, err = newParking(p); err != nil {
		return nil, err
	}
	p.relay = relay.New(relay.Config{
		Order: order, Dir: d, Settings: settings, UID: job.User.UID, GID: job.User.GID, InitUIDs: p.initUIDs(),
		Log: p.log, Changed: p.changedNow, Packets: p.packetsFrom,
	})
	p.maker = p.newMaker()
	job.Tell = p.sayPreparing
	p.startContext, p.stopStart = context.WithCancel(context.Background())
	return p, nil
}

// initUIDs are the users as whom process 1 may answer. A restored socket belongs to the
// container's root, as whom CRIU made it listen; nothing else in a user's job does.
func (p *alloc) initUIDs() []uint32 {
	if p.order.Restore == nil {
		return []uint32{p.job.User.UID}
	}
	return []uint32{p.job.User.UID, container.HostIDBase}
}

// prepare makes what the container needs, and serves the job's socket.
func (p *alloc) prepare() (*container.Spec, func(), error) {
	spec, cleanup, err := p.job.Prepare(p.startContext)
	if err != nil {
		return nil, nil, err
	}
	spec.Cgroup = p.group.Config()
	p.prepareOut(spec)
	if !p.job.DryRun {
		err = p.relay.Serve()
	}
	if err != nil {
		cleanup()
		return nil, nil, err
	}
	return spec, cleanup, nil
}

// end asks the allocation to end. The first call is the cause; a later one can only bring
// the SIGKILL forward.
func (p *alloc) end(cause pb.EndCause, grace time.Duration, detail string) {
	p.endWarned(cause, 0, grace, detail)
}

// endWarned asks the allocation to end, and sends TERM once more after a while if that
// is before the end of its grace time.
func (p *alloc) endWarned(cause pb.EndCause, again, grace time.Duration, detail string) {
	p.mu.Lock()
	now := time.Now()
	deadline := now.Add(grace)
	switch {
	case p.ending == nil:
		p.core.Ending = true
		p.ending = &ending{cause: cause, detail: detail, asked: now, deadline: deadline}
		if again > 0 && again < grace {
			p.ending.termAgain = now.Add(again)
		}
	case deadline.Before(p.ending.deadline):
		p.ending.deadline = deadline
		if !p.ending.termAgain.IsZero() {
			p.ending.termAgain = now // the first TERM was a warning until now
		}
	}
	p.mu.Unlock()
	p.stopStart()
	p.poke()
}

func (p *alloc) endAsked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending != nil
}

// poke makes supervise look again.
func (p *alloc) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// changedNow makes the watchers look again.
func (p *alloc) changedNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify()
}

// notify is changedNow for a caller that holds p.mu.
func (p *alloc) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *alloc) setReady(running *container.Container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.maker.Dumper = &save.ContainerDumper{Engine: p.settings.Checkpoint.Engine, Container: running, Dir: p.dir}
	if p.core.Started() {
		p.release()
	}
	p.core.Checkpointable = p.firstCheckpointable()
	p.notify()
	if p.core.Checkpointable.Reason == askingDriver {
		go p.checkpointableGPUs()
	}
}

// sayPreparing tells what the allocation waits for before its container is made.
func (p *alloc) sayPreparing(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.core.Checkpointable = nil
	if text != "" {
		p.core.Checkpointable = &pb.AllocCheckpointable{Alloc: p.order.Alloc, Reason: bundle.Clip(text)}
	}
	p.notify()
}

// release notes that the script may run. The caller holds p.mu.
func (p *alloc) release() {
	p.core.Released, p.releasedMS = true, time.Now().UnixMilli()
}

// setStuck tells the watchers what does not end, or that nothing of that is left.
func (p *alloc) setStuck(err error) {
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

func (p *alloc) setEnded(result *pb.AllocEnded) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = result
	p.notify()
}

func killWait(order *pb.StartAlloc) time.Duration {
	return time.Duration(order.KillWaitS) * time.Second
}

func memoryText(bytes uint64) string { return spec.FormatSize(bytes) }
