// Package save makes one image of a running job: it closes what connects the job with
// its supervisor, parks its GPU memory, freezes it, writes its processes and files, and
// packs them into a store.
//
// Contract: the table of steps in package supervise says what comes next. A save that
// fails undoes what it did to the job, and leaves no image. Afterwards the job is frozen
// only if the image is durable and somebody wants the job frozen; otherwise it runs,
// unless its lease or a suspension has frozen it. On disk, nothing of a save is left, or
// the mark is left too. One save runs at a time: the caller sees to that.
package save

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/shim/gpumem"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	"github.com/gleaner-hpc/gleaner/noded/shim/relay"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Config is what a save has to do with.
type Config struct {
	Job    *prepare.Job
	Group  *cgroup.Group // the job's
	Relay  *relay.Relay
	GPUs   *gpumem.Memory // nil = no device has a memory of its own
	Dumper Dumper         // nil until the container is up
	Store  Store
	// Lock guards what supervise decides: each supervise.Save given to Make.
	Lock sync.Locker
	// Freeze freezes the job until Thaw. If it fails, the job is as it was.
	Freeze func(context.Context) error
	// Thaw ends Freeze: the job runs, unless something else has it frozen. It may be
	// called without Freeze.
	Thaw func() error
	// Refreeze has the kernel freeze or thaw the job as it should be already.
	Refreeze func() error
	// MayRun says whether the lease lets the job run.
	MayRun func() bool
	// StaysParked says whether the job does not run after it was saved, because its
	// devices are the owner's of the node.
	StaysParked func() bool
	// Released is told that CRIU ended in the middle of a dump and let go of the job's
	// processes.
	Released func()
}

// Maker makes the images of one job.
type Maker struct{ Config }

// Made is what a save achieved.
type Made struct {
	Image        *pb.Image // nil = none
	WrittenBytes uint64    // that the store did not have yet
	Locks        bool      // a process holds file locks
	StopMS       uint32    // until the job was frozen
	FrozenMS     uint32    // until it ran again; 0 = it did not
	PackMS       uint32    // until the image was durable
}

// work is one save.
type work struct {
	*Maker
	decided  *supervise.Save // guarded by Lock
	number   uint32
	begun    time.Time
	frozen   time.Time // when the job was told to freeze
	manifest *checkpoint.Manifest
	packing  Packing // under way since the dump; nil = not yet
	// packFailed is why packing takes no more.
	packFailed error
	facts      cuda.Facts // of its GPUs, before it was frozen
	made       Made
}

// Make makes an image. The context's end aborts that, with its cause.
func (m *Maker) Make(ctx context.Context, decided *supervise.Save) (Made, error) {
	w := &work{Maker: m, decided: decided, begun: time.Now()}
	m.Lock.Lock()
	w.number = decided.Order.Number
	m.Lock.Unlock()
	failure := walk(ctx, w.wantsFrozen, w.step)
	w.abandonPacking()
	if w.made.Image != nil {
		w.made.PackMS = sinceMS(w.begun)
	}
	return w.made, failure
}

func sinceMS(begin time.Time) uint32 { return uint32(time.Since(begin).Milliseconds()) }

// Resume undoes, in reverse order, what a save did to the job. It may be called again.
func (m *Maker) Resume() error {
	// The job's socket is made while the job is frozen: otherwise the job could put
	// something else in its place.
	err := m.Relay.Reconnect()
	err = errors.Join(err, m.thaw())
	return errors.Join(err, m.GPUs.Unpark())
}
