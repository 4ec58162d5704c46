package shim

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
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Handle is the daemon's view of one part. Its methods may be called from
// several goroutines.
type Handle struct {
	dir      directory
	order    *pb.StartPart
	settings *Settings

	mu   sync.Mutex
	conn *grpc.ClientConn
}

// open answers a part on disk. The error wraps ErrDamaged or ErrForeign, or
// tells of a file that is missing.
func open(dir directory) (*Handle, error) {
	if err := dir.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
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

// Alive says whether the supervisor runs. It writes the result before it ends: who
// asks for both asks this first.
func (h *Handle) Alive() bool { return locked(h.dir.path(lockFile)) }

// Stands says whether no process of the part runs, by the kernel's word: it is
// frozen, or has none.
func (h *Handle) Stands() (bool, error) {
	group := cgroup.New(path.Join(h.settings.CgroupParent, h.dir.id()), cgroup.Limits{})
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
