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

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/container"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/logs"
)

// Main is the supervisor: what "PROGRAM shim DIR" runs, on the main
// goroutine. It returns when the part has ended and its result is on disk; an
// error means that it has no result, and that Handle.Recover is needed.
func Main(dir string) error {
	d := directory(dir)
	log := d.log()
	if err := container.Isolate(); err != nil {
		return err
	}
	// Mount points that the container lacks are made with it.
	unix.Umask(0o022)
	host, err := openHostMounts()
	if err != nil {
		return err
	}
	defer host.Close()
	lock, err := takeLock(d.path(lockFile))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := nameHolder(lock); err != nil {
		return err
	}
	if _, err := d.result(); err == nil {
		return nil
	}
	p, err := newPart(d, log)
	if err != nil {
		return err
	}
	defer p.closeGPUs()
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
	result.Part = p.order.Part
	if result.EndMs == 0 {
		result.EndMs = time.Now().UnixMilli()
	}
	p.closeJobSockets()
	p.leaveCheckpointDir()
	err, cleanErr := d.conclude(result, host, func() {
		p.setEnded(result)
		log.Info("part ended", "cause", result.Cause, "exit_code", result.ExitCode, "exit_signal", result.ExitSignal, "detail", result.Detail)
	})
	if cleanErr != nil {
		// Forget tries again, and tells the node's operator.
		log.Error("the part's directory could not be cleaned: see what holds it", "error", cleanErr)
	}
	if err != nil {
		return err
	}
	stopServer(server)
	return nil
}

// log is the supervisor's, which names the part in every line as the daemon's
// and the controllers' do.
func (d directory) log() *slog.Logger {
	options := logs.Options{}
	if settings, err := d.settings(); err == nil {
		options.Format = settings.LogFormat
	}
	job, epoch, _ := strings.Cut(d.id(), ".")
	return logs.New(os.Stderr, options).With("job", number(job), "epoch", number(epoch))
}

func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 32) // 0 is no job's
	return n
}

// run takes the part from its order to its end, and answers how it ended when
// nothing of it is left.
func (p *part) run() *pb.PartEnded {
	var manifest *checkpoint.Manifest
	if p.order.Restore != nil {
		defer p.dropImageDir()
		var err error
		if manifest, err = p.fetch(p.startContext); err == nil {
			err = p.planUnpark(p.startContext, manifest)
		}
		if err != nil {
			return p.failed(err)
		}
	}
	spec, cleanup, err := p.prepare()
	if err != nil {
		return p.failed(err)
	}
	if !p.awaitLease() {
		cleanup()
		return p.neverRan()
	}
	running, err := p.begin(spec, manifest)
	cleanup()
	p.dropImageDir()
	if err != nil {
		return p.failed(err)
	}
	p.log.Info("container is up", "pid", running.Pid())
	back := p.comeBack(running)
	p.supervise(running)
	back()
	p.stopSaving() // process 1 may have ended by itself meanwhile
	return p.bury(running)
}

// failed is the result of a part that could not start.
func (p *part) failed(err error) *pb.PartEnded {
	p.killRest() // of a restore that came half way
	p.removeCgroup()
	if p.endAsked() {
		return p.neverRan()
	}
	cause := pb.EndCause_END_CAUSE_NODE_FAULT
	var request *requestError
	switch {
	case p.order.Restore != nil && !DiskFull(p.settings.StateDir, err):
		// Whatever it is: another node may do better.
		cause = pb.EndCause_END_CAUSE_RESTORE_FAILED
		p.log.Warn("the job can not go on here: the controllers try another node, or its image before; see CRIU's log if the error does not say why", "error", err)
	case errors.As(err, &request) || errors.Is(err, container.ErrUser) || errors.Is(err, container.ErrDeleted):
		cause = pb.EndCause_END_CAUSE_BAD_REQUEST
	case DiskFull(p.settings.StateDir, err):
		cause = pb.EndCause_END_CAUSE_NODE_FULL
		fallthrough
	default:
		p.log.Error("cannot start the container: correct the cause on this node", "error", err)
	}
	return &pb.PartEnded{Cause: cause, Detail: clip(err.Error())}
}

// neverRan is the result of a part that was ended before it started.
func (p *part) neverRan() *pb.PartEnded {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pb.PartEnded{Cause: p.ending.cause, Detail: p.ending.detail}
}

// bury removes the container, whose processes have ended, and answers how the
// part ended.
func (p *part) bury(running *container.Container) *pb.PartEnded {
	p.killRest()
	usage, err := p.group.Usage()
	if err != nil {
		p.log.Warn("usage is unknown: the job's record will lack it", "error", err)
	}
	result := p.outcome(usage.OOMKills > 0)
	result.Usage = usageMessage(usage)
	if err := running.Destroy(); err != nil {
		p.log.Error("the container could not be removed whole: what is left goes with this process", "error", err)
	}
	p.removeCgroup()
	return result
}

// outcome says how the part ended, from what was asked of it, what process 1
// reported and what the kernel did.
func (p *part) outcome(outOfMemory bool) *pb.PartEnded {
	p.mu.Lock()
	ending, ended, releasedMS, letGo := p.ending, p.initEnded, p.releasedMS, p.saves.letGo
	p.mu.Unlock()
	result := &pb.PartEnded{Cause: pb.EndCause_END_CAUSE_EXITED, StartMs: p.dir.startMS()}
	exit := p.dir.exit()
	switch {
	case exit != nil:
		exit.fill(result)
		result.EndMs = exit.EndMS
	case p.batch:
		// The report is missing: the job spoiled it, or the disk was full. Of
		// process 1's own end at least the number is left.
		result.ExitCode, result.ExitSignal = uint32(ended.code)&0xff, uint32(ended.signal)
		if result.StartMs == 0 && ended.signal == 0 {
			result.StartMs = releasedMS
		}
	}
	byItself := exit != nil && ending != nil && exit.EndMS < ending.askedMS
	switch {
	case ending != nil && !byItself:
		result.Cause, result.Detail = ending.cause, ending.detail
	case !letGo.IsZero() && exit.diedOfDump(letGo.Add(-dumpShadow).UnixMilli(), letGo.Add(dumpShadow).UnixMilli()):
		result.Cause, result.Detail = pb.EndCause_END_CAUSE_SUPERVISOR_DIED, diedOfDump
		result.ExitCode, result.ExitSignal = 0, 0
	case outOfMemory:
		result.Cause = pb.EndCause_END_CAUSE_OUT_OF_MEMORY
		result.Detail = fmt.Sprintf("a process was killed at the memory limit of %s on node %s", memoryText(p.own.MemoryBytes), p.settings.Node)
	case !p.batch:
		result.Cause = pb.EndCause_END_CAUSE_NODE_FAULT
		result.Detail = fmt.Sprintf("process 1 of the container on node %s ended by signal %d", p.settings.Node, ended.signal)
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

func (p *part) removeCgroup() {
	if err := removeEmptied(context.Background(), p.group); err != nil {
		// Forget tries again, and tells the node's operator.
		p.log.Error("the job's control group could not be removed: see what runs in it", "error", err)
	}
}
