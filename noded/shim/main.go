package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/logs"
)

// Main is the supervisor, which "PROGRAM shim DIR" runs on the main
// goroutine. It returns when the allocation has ended and its result is on disk. An
// error means that there is no result, and that Handle.Recover is needed.
func Main(dir string) error {
	d := bundle.Dir(dir)
	log := newLog(d)
	if err := container.Isolate(); err != nil {
		return err
	}
	// It is the mode of the mount points that the container lacks.
	unix.Umask(0o022)
	host, err := remove.HostMounts()
	if err != nil {
		return err
	}
	defer host.Close()
	lock, err := bundle.Lock(d.Path(bundle.LockFile))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := bundle.NameHolder(lock); err != nil {
		return err
	}
	if _, err := d.Result(); err == nil {
		return nil
	}
	p, err := newAlloc(d, log)
	if err != nil {
		return err
	}
	defer p.gpus.Close()
	server, err := p.serve()
	if err != nil {
		return err
	}
	if err := sayListening(); err != nil {
		log.Warn("the daemon that started this supervisor has gone: the next one finds it", "error", err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	go func() {
		for s := range signals {
			if s == unix.SIGTERM {
				p.end(pb.EndCause_END_CAUSE_SUPERVISOR_DIED, killWait(p.order), "the job's supervisor was told to end by SIGTERM")
			}
		}
	}()

	result := p.run()
	result.Alloc = p.order.Alloc
	if result.EndMs == 0 {
		result.EndMs = time.Now().UnixMilli()
	}
	p.relay.Close()
	p.job.LeaveCheckpointDir()
	p.job.DropDisk()
	p.job.DropRoot()
	if err := d.KeepDisk(p.order, result, p.settings.StateDir); err != nil {
		log.Error("the job's disk could not be kept for its next run: see whether the disk is full", "error", err)
	}
	err, cleanErr := d.Conclude(result, host, func() {
		p.setEnded(result)
		log.Info("allocation ended", "cause", result.Cause, "exit_code", result.ExitCode, "exit_signal", result.ExitSignal, "detail", result.Detail)
	})
	if cleanErr != nil {
		// Forget tries again, and tells the node's operator.
		log.Error("the allocation's directory could not be cleaned: see what holds it", "error", cleanErr)
	}
	if err != nil {
		return err
	}
	stopServer(server)
	return nil
}

// run carries out the order of the allocation to its end, and answers how it ended when
// nothing of it is left.
func (p *alloc) run() *pb.AllocEnded {
	if err := p.job.CheckAccounts(p.startContext); err != nil {
		return p.failed(err)
	}
	var image *arrival
	if p.order.Restore != nil {
		var err error
		if image, err = p.arrive(p.startContext); err != nil {
			return p.failed(err)
		}
		defer p.drop(image)
		p.job.ImageTmpBytes = image.manifest.TmpBytes
	}
	spec, cleanup, err := p.prepare()
	if err != nil {
		return p.failed(err)
	}
	if err := image.wait(); err != nil {
		cleanup()
		return p.failed(err)
	}
	if !p.awaitLease() {
		cleanup()
		return p.neverRan()
	}
	defer p.closeOut()
	p.beginOut()
	if err := p.beginNetwork(); err != nil {
		cleanup()
		return p.failed(err)
	}
	defer p.gang.close()
	if p.gang != nil {
		spec.Network = joined{spec.Network, p.gang}
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		go p.watchPeers(ctx)
	}
	running, err := p.begin(spec, image)
	cleanup()
	p.drop(image)
	if err != nil {
		return p.failed(err)
	}
	p.log.Info("container is up", "pid", running.Pid())
	back := p.comeBack(running)
	quiet, unseen := p.tellStaging(), p.watchInside(running)
	p.supervise(running)
	unseen()
	quiet()
	back()
	p.stopSaving() // process 1 may have ended by itself meanwhile
	return p.teardown(running)
}

// failed is the result of an allocation that could not start.
func (p *alloc) failed(err error) *pb.AllocEnded {
	p.killRest() // a restore may have failed half way
	p.removeCgroup()
	if p.endAsked() {
		return p.neverRan()
	}
	cause := pb.EndCause_END_CAUSE_NODE_FAULT
	var request *prepare.RequestError
	var chosen *container.ChosenError
	switch {
	case errors.Is(err, prepare.ErrOtherAccount):
		cause = pb.EndCause_END_CAUSE_OTHER_ACCOUNT
		p.log.Warn("the job's user is somebody else here: give people the same names and numbers on all nodes", "error", err)
	case errors.Is(err, prepare.ErrStagedGone):
		cause = pb.EndCause_END_CAUSE_STAGED_GONE
		p.log.Warn("the job's files are gone: the controllers have them staged in again", "error", err)
	case errors.Is(err, prepare.ErrNotAdmitted):
		cause = pb.EndCause_END_CAUSE_NOT_ADMITTED
	case errors.Is(err, errImageAway):
		cause = pb.EndCause_END_CAUSE_IMAGE_AWAY
		p.log.Warn("the job's image did not come: the controllers try again, or another node", "error", err)
	case p.order.Restore != nil && !bundle.DiskFull(p.settings.StateDir, err):
		// Whatever the cause, another node may succeed.
		cause = pb.EndCause_END_CAUSE_RESTORE_FAILED
		p.log.Warn("the job cannot resume here: the controllers try another node, or its image before; see CRIU's log if the error does not say why", "error", err)
	case errors.Is(err, container.ErrMemory):
		cause = pb.EndCause_END_CAUSE_BAD_REQUEST
		err = prepare.BadRequest("the job did not start with %s of memory on node %s: ask for more with --mem: %v", memoryText(p.own.MemoryBytes), p.settings.Node, err)
	case errors.As(err, &request) || errors.As(err, &chosen) || errors.Is(err, container.ErrUser) || errors.Is(err, container.ErrDeleted):
		cause = pb.EndCause_END_CAUSE_BAD_REQUEST
	case bundle.DiskFull(p.settings.StateDir, err):
		cause = pb.EndCause_END_CAUSE_NODE_FULL
		fallthrough
	default:
		p.log.Error("cannot start the container: correct the cause on this node", "error", err)
	}
	return &pb.AllocEnded{Cause: cause, Detail: bundle.Clip(err.Error())}
}

// neverRan is the result of an allocation that was ended before it started.
func (p *alloc) neverRan() *pb.AllocEnded {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pb.AllocEnded{Cause: p.ending.cause, Detail: p.ending.detail}
}

// teardown removes the container, whose processes have ended, and answers how the
// allocation ended.
func (p *alloc) teardown(running *container.Container) *pb.AllocEnded {
	p.killRest()
	freed := p.freed()
	usage, err := p.group.Usage()
	if err != nil {
		p.log.Warn("usage is unknown: the job's record will lack it", "error", err)
	}
	result := p.outcome(usage.OOMKills > 0)
	result.Usage, result.Freed = bundle.UsageMessage(usage), freed
	result.Steps = bundle.ReadSteps(p.dir.Path(bundle.RunDir))
	if err := running.Destroy(); err != nil {
		p.log.Error("the container could not be removed whole: what is left goes with this process", "error", err)
	}
	p.removeCgroup()
	return result
}

// outcome says how the allocation ended: from the request to end, the report of process 1
// and what the kernel did.
func (p *alloc) outcome(outOfMemory bool) *pb.AllocEnded {
	p.mu.Lock()
	ending, ended, releasedMS, criuReleased := p.ending, p.initEnded, p.releasedMS, p.criuReleased
	p.mu.Unlock()
	result := &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_EXITED, StartMs: bundle.ReadStart(p.dir.Path(bundle.RunDir))}
	exit := bundle.ReadExit(p.dir.Path(bundle.RunDir))
	switch {
	case exit != nil:
		exit.Fill(result)
		result.EndMs = exit.EndMS
	case p.batch:
		// The report is missing: the job spoiled it, or the disk was full. At least
		// the exit status of process 1 is known.
		result.ExitCode, result.ExitSignal = uint32(ended.code)&0xff, uint32(ended.signal)
		if result.StartMs == 0 && ended.signal == 0 {
			result.StartMs = releasedMS
		}
	}
	byItself := exit != nil && ending != nil && exit.EndMS < ending.asked.UnixMilli()
	switch {
	case ending != nil && !byItself:
		result.Cause, result.Detail = ending.cause, ending.detail
	case !criuReleased.IsZero() && exit.DiedOfDump(criuReleased.Add(-dumpShadow).UnixMilli(), criuReleased.Add(dumpShadow).UnixMilli()):
		result.Cause, result.Detail = pb.EndCause_END_CAUSE_SUPERVISOR_DIED, diedOfDump
		result.ExitCode, result.ExitSignal = 0, 0
	case outOfMemory:
		result.Cause = pb.EndCause_END_CAUSE_OUT_OF_MEMORY
		result.Detail = fmt.Sprintf("a process was killed at the memory limit of %s on node %s", memoryText(p.own.MemoryBytes), p.settings.Node)
	case !p.batch:
		result.Cause = pb.EndCause_END_CAUSE_NODE_FAULT
		result.Detail = fmt.Sprintf("process 1 of the container on node %s ended by signal %d", p.settings.Node, ended.signal)
	}
	if p.order.GetStages() && result.Detail == "" && (result.ExitCode != 0 || result.ExitSignal != 0) {
		result.Detail = bundle.ReadStaging(p.dir.Path(bundle.RunDir))
	}
	if !p.batch {
		result.ExitCode, result.ExitSignal = 0, 0
	}
	if p.order.Restore != nil {
		// The script began in an earlier run; this is the beginning of this one.
		result.StartMs = releasedMS
	}
	return result
}

func (p *alloc) removeCgroup() {
	if err := remove.EmptiedGroup(context.Background(), p.group); err != nil {
		// Forget tries again, and tells the node's operator.
		p.log.Error("the job's control group could not be removed: see what runs in it", "error", err)
	}
}

// diedOfDump is the detail of a job that could not continue from the state in which a
// CRIU that ended too early left it.
const diedOfDump = "criu ended in the middle of saving the job, and the job with it"

// dumpShadow is how long before and after its end such a CRIU counts as the cause.
const dumpShadow = 10 * time.Second

// sayListening tells the daemon that the supervisor listens, and closes standard output.
func sayListening() error {
	// os.Stdout would end the program if the pipe has no reader.
	_, sayErr := unix.Write(unix.Stdout, []byte(bundle.Listening))
	// What a library prints goes to the log.
	if err := errors.Join(sayErr, unix.Dup3(unix.Stderr, unix.Stdout, 0)); err != nil {
		return fmt.Errorf("tell the daemon: %w", err)
	}
	return nil
}

// newLog makes the supervisor's log, which names the allocation in every line, as the
// daemon's and the controllers' logs do.
func newLog(d bundle.Dir) *slog.Logger {
	options := logs.Options{}
	if settings, err := d.Settings(); err == nil {
		options.Format = settings.LogFormat
	}
	job, epoch, _ := strings.Cut(d.ID(), ".")
	return logs.New(os.Stderr, options).With("job", number(job), "epoch", number(epoch))
}

func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 32) // 0 is no job's
	return n
}
