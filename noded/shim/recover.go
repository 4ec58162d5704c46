package shim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// exitPatience is how long Recover and Forget wait for a supervisor that has
// written its result and is on its way out.
const exitPatience = 3 * time.Second

// Recover ends a part whose supervisor died without a result: it kills what
// is left of its processes, cleans up and writes the result. A part that has
// a result keeps it. It fails with ErrAlive while the supervisor runs, and may
// be called again after any failure.
func (h *Handle) Recover(ctx context.Context) (*pb.PartEnded, error) {
	if err := h.waitForExit(ctx); err != nil {
		return nil, err
	}
	// Nobody may start a supervisor meanwhile.
	lock, err := takeLock(h.dir.path(lockFile))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if result, err := h.Result(); err == nil {
		return result, nil
	}
	result, err := h.buryDead(ctx)
	if err != nil {
		return nil, err
	}
	// What cannot be deleted is tried again by Forget, which says what it is.
	if err, _ := h.dir.conclude(result, nil, func() {}); err != nil {
		return nil, err
	}
	return result, nil
}

// buryDead ends what runs in the part's group, and answers what can be found
// out about the part's end.
func (h *Handle) buryDead(ctx context.Context) (*pb.PartEnded, error) {
	result := &pb.PartEnded{
		Part: h.order.Part, Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED,
		Detail: "the job's supervisor on node " + h.settings.Node + " was killed, and the job with it",
	}
	if now := bootID(); now != "" && h.settings.BootID != "" && h.settings.BootID != now {
		result.Detail = "node " + h.settings.Node + " was restarted while the job ran"
	}
	mark := h.dir.marked()
	if mark != nil {
		result.Detail += fmt.Sprintf(", while its image %d was being made", mark.Number)
	}
	outOfMemory := false
	if group, err := cgroup.Open(h.group()); err == nil {
		if err := killGroup(ctx, group); err != nil {
			return nil, err
		}
		if usage, err := group.Usage(); err == nil {
			result.Usage = usageMessage(usage)
			outOfMemory = usage.OOMKills > 0
		}
	}
	if err := removeGroup(ctx, h.group()); err != nil {
		return nil, err
	}
	result.StartMs, result.EndMs = h.dir.startMS(), time.Now().UnixMilli()
	if exit := h.dir.exit(); exit != nil && (mark == nil || !exit.diedOfDump(mark.BegunMS, math.MaxInt64)) {
		// The script had ended before; only the supervisor's end was untimely.
		result.Cause, result.Detail = pb.EndCause_END_CAUSE_EXITED, ""
		if outOfMemory {
			result.Cause, result.Detail = pb.EndCause_END_CAUSE_OUT_OF_MEMORY, "a process was killed at the memory limit on node "+h.settings.Node
		}
		exit.fill(result)
	}
	return result, nil
}

// Forget deletes the part's directory, after its result was acknowledged, and
// what may be left of its group. The error says what is left, and wraps
// ErrLeftOver; Forget may be called again.
func (h *Handle) Forget() error {
	ctx := context.Background()
	if err := h.waitForExit(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	if h.conn != nil {
		h.conn.Close()
		h.conn = nil
	}
	h.mu.Unlock()
	return errors.Join(removeGroup(ctx, h.group()), h.dir.remove())
}

func (h *Handle) group() string { return path.Join(h.settings.CgroupParent, h.dir.id()) }

// killGroup kills what runs in a group, and names what does not die.
func killGroup(ctx context.Context, group *cgroup.Group) error {
	limited, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	if err := group.Kill(limited); err != nil {
		return leftOver("cgroup "+group.Path(), errors.Join(survivors(group), err))
	}
	return nil
}

// waitForExit gives a supervisor that is about to exit time to do so.
func (h *Handle) waitForExit(ctx context.Context) error {
	if !h.Alive() {
		return nil
	}
	if _, err := h.Result(); err != nil {
		return ErrAlive
	}
	if waitUntil(ctx, func() bool { return !h.Alive() }) != nil {
		return leftOver(string(h.dir), fmt.Errorf("%w, deleting what the job left: wait, or see whether the disk is slow", ErrAlive))
	}
	return nil
}

// waitUntil waits a little for something that is about to happen.
func waitUntil(ctx context.Context, happened func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, exitPatience)
	defer cancel()
	for !happened() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func usageMessage(usage cgroup.Usage) *pb.Usage {
	return &pb.Usage{PeakMemoryBytes: usage.PeakMemoryBytes, CpuNs: usage.CPUNs}
}

// Damaged is a part whose files cannot be used, found on disk. Its job cannot
// be followed any further: it is ended, and removed.
type Damaged struct {
	dir   directory
	part  *pb.PartId
	group string
	why   error
}

// Order answers an order that has the part's name only.
func (d *Damaged) Order() *pb.StartPart { return &pb.StartPart{Part: d.part} }

// Error says what is damaged.
func (d *Damaged) Error() string { return d.why.Error() }

// Recover kills the part's supervisor, if there is one, and all that runs in
// its group, and answers how the part ended. Nothing is written, since nothing
// in the directory is to be relied on. It may be called again.
func (d *Damaged) Recover(ctx context.Context) (*pb.PartEnded, error) {
	for _, pid := range supervisorsOf(d.dir) {
		if err := killSupervisor(pid, d.dir); err != nil {
			return nil, err
		}
	}
	if err := waitUntil(ctx, func() bool { return len(supervisorsOf(d.dir)) == 0 }); err != nil {
		return nil, fmt.Errorf("%s: %w", d.dir, ErrAlive)
	}
	if err := removeGroup(ctx, d.group); err != nil {
		return nil, err
	}
	return &pb.PartEnded{
		Part: d.part, Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED, EndMs: time.Now().UnixMilli(),
		Detail: clip("what the node keeps of the job cannot be used, so it was ended: " + d.why.Error()),
	}, nil
}

// Forget deletes the directory, if it is a part's. What is not is left alone,
// and told, until it is gone.
func (d *Damaged) Forget() error {
	if err := removeGroup(context.Background(), d.group); err != nil {
		return err
	}
	if !exists(string(d.dir)) {
		return nil
	}
	if err := d.dir.check(); err != nil {
		return leftOver(string(d.dir), fmt.Errorf("%w: remove it by hand", err))
	}
	if !d.dir.holdsPart() {
		return leftOver(string(d.dir), fmt.Errorf("%w: none of a part's files is in it: remove it by hand", ErrForeign))
	}
	return d.dir.remove()
}
