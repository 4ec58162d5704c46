package client

import (
	"context"
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/network"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Damaged is an allocation on disk whose files cannot be used. Its job can no longer be
// followed: it is ended, and removed.
type Damaged struct {
	dir   bundle.Dir
	alloc *pb.AllocId
	group string
	why   error
}

// Order answers an order that has the allocation's name only.
func (d *Damaged) Order() *pb.StartAlloc { return &pb.StartAlloc{Alloc: d.alloc} }

// Error says what is damaged.
func (d *Damaged) Error() string { return d.why.Error() }

// Recover kills the allocation's supervisor, if there is one, and all that runs in
// its group, and answers how the allocation ended. Nothing is written, because nothing
// in the directory is to be relied on. It may be called again.
func (d *Damaged) Recover(ctx context.Context) (*pb.AllocEnded, error) {
	for _, pid := range supervisorsOf(d.dir) {
		if err := killSupervisor(pid, d.dir); err != nil {
			return nil, err
		}
	}
	if err := waitUntil(ctx, func() bool { return len(supervisorsOf(d.dir)) == 0 }); err != nil {
		return nil, fmt.Errorf("%s: %w", d.dir, bundle.ErrAlive)
	}
	if err := remove.Group(ctx, d.group); err != nil {
		return nil, err
	}
	if err := network.Remove(string(d.dir)); err != nil {
		return nil, err
	}
	return &pb.AllocEnded{
		Alloc: d.alloc, Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED, EndMs: time.Now().UnixMilli(),
		Detail: bundle.Clip("what the node keeps of the job cannot be used, so it was ended: " + d.why.Error()),
	}, nil
}

// Forget deletes the directory if it is an allocation's. Otherwise it leaves it alone
// and reports it until it is gone.
func (d *Damaged) Forget() error {
	if err := remove.Group(context.Background(), d.group); err != nil {
		return err
	}
	if !isThere(string(d.dir)) {
		return nil
	}
	if err := d.dir.Check(); err != nil {
		return remove.NewLeftOver(string(d.dir), fmt.Errorf("%w: remove it by hand", err))
	}
	if !d.dir.HoldsAlloc() {
		return remove.NewLeftOver(string(d.dir), fmt.Errorf("%w: none of an allocation's files is in it: remove it by hand", bundle.ErrForeign))
	}
	return d.dir.Remove()
}
