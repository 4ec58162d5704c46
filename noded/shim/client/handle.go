// Package client is the node daemon's side of supervisors. Launch starts one, List
// finds all of them again, and a Handle asks, watches, recovers and forgets one.
//
// An allocation is started at most once, however often Launch is called. Recover
// ends what a dead supervisor left, writes the result, and may be called again
// after any failure. Nothing outside the directories of allocations is deleted.
//
// The program that Launch starts calls Main of package shim when its first
// argument is Word, and FitsMain when it is FitsWord.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Handle is the daemon's view of one allocation. Its methods may be called from
// several goroutines.
type Handle struct {
	dir      bundle.Dir
	order    *pb.StartAlloc
	settings *bundle.Settings

	mu   sync.Mutex
	conn *grpc.ClientConn
}

// open answers an allocation on disk. The error wraps ErrDamaged or ErrForeign, or
// tells of a file that is missing.
func open(dir bundle.Dir) (*Handle, error) {
	if err := dir.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	order, err := dir.Order()
	if err != nil {
		return nil, err
	}
	settings, err := dir.Settings()
	if err != nil {
		return nil, err
	}
	return &Handle{dir: dir, order: order, settings: settings}, nil
}

// Order answers the order with which the allocation was started.
func (h *Handle) Order() *pb.StartAlloc { return h.order }

// Dir answers the allocation's directory.
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
				return socket.Dial(ctx, h.dir.Path(bundle.SocketFile))
			}))
		if err != nil {
			return nil, fmt.Errorf("make a client of the supervisor: %w", err)
		}
		h.conn = conn
	}
	return pb.NewShimClient(h.conn), nil
}

// Alive says whether the supervisor runs. It writes the result before it ends: a caller
// that asks for both asks this first.
func (h *Handle) Alive() bool { return bundle.Locked(h.dir.Path(bundle.LockFile)) }

// Frozen says whether the kernel lets no process of the allocation run: it is frozen, or
// has none.
func (h *Handle) Frozen() (bool, error) {
	group := cgroup.New(path.Join(h.settings.CgroupParent, h.dir.ID()), cgroup.Limits{})
	frozen, err := group.Frozen()
	if errors.Is(err, cgroup.ErrNotFound) {
		return true, nil
	}
	if frozen || err != nil {
		return frozen, err
	}
	pids, err := group.Procs()
	if errors.Is(err, cgroup.ErrNotFound) {
		return true, nil
	}
	return len(pids) == 0, err
}

// Result answers how the allocation ended, or ErrNoResult while it has not.
func (h *Handle) Result() (*pb.AllocEnded, error) { return h.dir.Result() }

// Kill kills the supervisor, for one that does not answer: stopped, or waiting
// for a file server that is away. Its job dies with it; Recover cleans up.
func (h *Handle) Kill() error {
	if !h.Alive() {
		return nil
	}
	return killHolder(h.dir)
}

// Saved answers how the allocation's newest save ended, or nil when none did. After
// the allocation has ended nothing is frozen.
func (h *Handle) Saved() *pb.AllocSaved {
	return h.dir.Saved()
}
