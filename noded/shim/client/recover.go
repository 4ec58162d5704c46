package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/network"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// exitPatience is how long Recover and Forget wait for a supervisor that has
// written its result and is on its way out.
const exitPatience = 3 * time.Second

// Recover ends an allocation whose supervisor died without a result: it kills what
// is left of its processes, cleans up and writes the result. An allocation that has
// a result keeps it. It fails with ErrAlive while the supervisor runs, and may
// be called again after any failure.
func (h *Handle) Recover(ctx context.Context) (*pb.AllocEnded, error) {
	if err := h.waitForExit(ctx); err != nil {
		return nil, err
	}
	// Nobody may start a supervisor meanwhile.
	lock, err := bundle.Lock(h.dir.Path(bundle.LockFile))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if result, err := h.Result(); err == nil {
		return result, nil
	}
	result, err := h.teardownDead(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.dir.KeepDisk(h.order, result, h.settings.StateDir); err != nil {
		return nil, err
	}
	// What cannot be deleted is tried again by Forget, which says what it is.
	if err, _ := h.dir.Conclude(result, nil, func() {}); err != nil {
		return nil, err
	}
	return result, nil
}

// teardownDead ends what runs in the allocation's group, and answers what can be found
// out about the allocation's end.
func (h *Handle) teardownDead(ctx context.Context) (*pb.AllocEnded, error) {
	result := &pb.AllocEnded{
		Alloc: h.order.Alloc, Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED,
		Detail: "the job's supervisor on node " + h.settings.Node + " was killed, and the job with it",
	}
	if now := bootID(); now != "" && h.settings.BootID != "" && h.settings.BootID != now {
		result.Detail = "node " + h.settings.Node + " was restarted while the job ran"
	}
	mark := h.dir.Marked()
	if mark != nil {
		result.Detail += fmt.Sprintf(", while its image %d was being made", mark.Number)
	}
	outOfMemory := false
	if group, err := cgroup.Open(h.group()); err == nil {
		if err := remove.KillGroup(ctx, group); err != nil {
			return nil, err
		}
		if usage, err := group.Usage(); err == nil {
			result.Usage = bundle.UsageMessage(usage)
			outOfMemory = usage.OOMKills > 0
		}
	}
	if err := remove.Group(ctx, h.group()); err != nil {
		return nil, err
	}
	if err := network.Remove(string(h.dir)); err != nil {
		return nil, err
	}
	found := reports(ctx, h.dir)
	exit := found.exit
	result.StartMs, result.EndMs, result.Steps = found.startMS, time.Now().UnixMilli(), found.steps
	if exit != nil && (mark == nil || !exit.DiedOfDump(mark.BegunMS, math.MaxInt64)) {
		// The script had ended before; only the supervisor's end was untimely.
		result.Cause, result.Detail = pb.EndCause_END_CAUSE_EXITED, ""
		if outOfMemory {
			result.Cause, result.Detail = pb.EndCause_END_CAUSE_OUT_OF_MEMORY, "a process was killed at the memory limit on node "+h.settings.Node
		}
		exit.Fill(result)
	}
	return result, nil
}

// Forget deletes the allocation's directory, after its result was acknowledged, and
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
	return errors.Join(remove.Group(ctx, h.group()), h.dir.Remove())
}

func (h *Handle) group() string { return path.Join(h.settings.CgroupParent, h.dir.ID()) }

// waitForExit gives a supervisor that is about to exit time to do so.
func (h *Handle) waitForExit(ctx context.Context) error {
	if !h.Alive() {
		return nil
	}
	if _, err := h.Result(); err != nil {
		return bundle.ErrAlive
	}
	if waitUntil(ctx, func() bool { return !h.Alive() }) != nil {
		return remove.NewLeftOver(string(h.dir), fmt.Errorf("%w, deleting what the job left: wait, or see whether the disk is slow", bundle.ErrAlive))
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
