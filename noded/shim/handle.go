package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gleaner-hpc/gleaner/cgroup"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// exitPatience is how long Recover and Forget wait for a supervisor that has
// written its result and is on its way out.
const exitPatience = 3 * time.Second

// Handle is the daemon's view of one part. Its methods may be called from
// several goroutines.
type Handle struct {
	dir      directory
	order    *pb.StartPart
	settings *Settings

	mu   sync.Mutex
	conn *grpc.ClientConn
}

func open(dir directory) (*Handle, error) {
	order, err := dir.order()
	if err != nil {
		return nil, err
	}
	settings, err := dir.settings()
	if err != nil {
		return nil, err
	}
	return &Handle{dir: dir, order: order, settings: settings}, nil
}

// Order answers the order that the part was started with.
func (h *Handle) Order() *pb.StartPart { return h.order }

// Dir answers the part's directory.
func (h *Handle) Dir() string { return string(h.dir) }

// Client answers a client of the supervisor. It connects when it is used, and
// is closed by Forget.
func (h *Handle) Client() (pb.ShimClient, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn == nil {
		conn, err := grpc.NewClient("passthrough:///shim",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return dialSocket(ctx, h.dir.path(socketFile))
			}))
		if err != nil {
			return nil, fmt.Errorf("make a client of the supervisor: %w", err)
		}
		h.conn = conn
	}
	return pb.NewShimClient(h.conn), nil
}

// Alive says whether the supervisor runs.
func (h *Handle) Alive() bool { return locked(h.dir.path(lockFile)) }

// Result answers how the part ended, or ErrNoResult while it has not.
func (h *Handle) Result() (*pb.PartEnded, error) { return h.dir.result() }

// Kill kills the supervisor, for one that does not answer: stopped, or waiting
// for a file server that is away. Its job dies with it; Recover cleans up.
func (h *Handle) Kill() error {
	if !h.Alive() {
		return nil
	}
	return killHolder(h.dir)
}

// Recover ends a part whose supervisor died without a result: it kills what
// is left of its processes, cleans up and writes the result. A part that has
// a result keeps it. It fails with ErrAlive while the supervisor runs, and
// may be called again after any failure.
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
	result := &pb.PartEnded{
		Part: h.order.Part, Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED,
		Detail: "the job's supervisor on node " + h.settings.Node + " was killed, and the job with it",
	}
	if now := bootID(); now != "" && h.settings.BootID != "" && h.settings.BootID != now {
		result.Detail = "node " + h.settings.Node + " was restarted while the job ran"
	}
	group, err := cgroup.Open(path.Join(h.settings.CgroupParent, h.dir.id()))
	if err == nil {
		if err := group.Kill(ctx); err != nil {
			return nil, fmt.Errorf("kill what is left of part %s: %w", h.dir.id(), err)
		}
		result.Usage = usageOf(group)
		err = removeGroup(ctx, group)
	}
	if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		return nil, fmt.Errorf("clean up part %s: %w", h.dir.id(), err)
	}
	result.StartMs, result.EndMs = h.dir.startMS(), time.Now().UnixMilli()
	if exit := h.dir.exit(); exit != nil {
		// The script had ended before; only the supervisor's end was untimely.
		result.Cause, result.Detail = pb.EndCause_END_CAUSE_EXITED, ""
		exit.fill(result)
	}
	if err := h.dir.clean(); err != nil {
		return nil, err
	}
	if err := h.dir.writeMessage(resultFile, result); err != nil {
		return nil, err
	}
	return result, nil
}

// Forget deletes the part's directory, after its result was acknowledged. The
// error says what is left; Forget may be called again.
func (h *Handle) Forget() error {
	if err := h.waitForExit(context.Background()); err != nil {
		return err
	}
	h.mu.Lock()
	if h.conn != nil {
		h.conn.Close()
		h.conn = nil
	}
	h.mu.Unlock()
	if err := h.dir.clean(); err != nil {
		return err
	}
	// The order goes last, so that what is left is still a part.
	for _, name := range []string{logFile, socketFile, settingsFile + ".new"} {
		if err := removeTree(h.dir.path(name)); err != nil {
			return err
		}
	}
	return removeTree(string(h.dir))
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
		return ErrAlive
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

// kept are the files that stay until a part is forgotten.
var kept = map[string]bool{
	orderFile: true, settingsFile: true, lockFile: true, socketFile: true, logFile: true, resultFile: true,
}

// clean removes what the part's container was made of, once nothing runs in
// it. It touches nothing while something is mounted below the directory.
func (d directory) clean() error {
	if err := d.nothingMounted(); err != nil {
		return err
	}
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return leftOver(string(d), err)
	}
	var failures []error
	for _, entry := range entries {
		if !kept[entry.Name()] {
			failures = append(failures, removeTree(d.path(entry.Name())))
		}
	}
	return errors.Join(failures...)
}

func (d directory) nothingMounted() error {
	mounts, err := mountinfo.GetMounts(func(info *mountinfo.Info) (skip, stop bool) {
		return info.Mountpoint != string(d) && !strings.HasPrefix(info.Mountpoint, string(d)+"/"), false
	})
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	if len(mounts) > 0 {
		return leftOver(mounts[0].Mountpoint, errors.New("something is mounted there: unmount it"))
	}
	return nil
}

func usageOf(group *cgroup.Group) *pb.Usage {
	usage, err := group.Usage()
	if err != nil {
		return nil
	}
	return &pb.Usage{PeakMemoryBytes: usage.PeakMemoryBytes, CpuNs: usage.CPUNs}
}

// removeGroup removes an emptied group. The kernel may need a moment after
// the last process has gone.
func removeGroup(ctx context.Context, group *cgroup.Group) error {
	deadline := time.Now().Add(exitPatience)
	for {
		err := group.Remove()
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
