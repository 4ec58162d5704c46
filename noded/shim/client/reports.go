package client

import (
	"context"
	"errors"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// diskPatience is how long Recover waits for a dead allocation's disk to be free, to read
// what process 1 has left there.
const diskPatience = 10 * time.Second

// left is what process 1 of an allocation without a supervisor has left.
type left struct {
	exit    *bundle.Exit  // how its script ended; nil = it did not say
	startMS int64         // when it had started, or 0
	steps   *pb.NodeSteps // nil = there were none
}

func reports(ctx context.Context, d bundle.Dir) left {
	run, done := d.Path(bundle.RunDir), func() {}
	if file := d.Path(bundle.DiskFile); isThere(file) {
		disk, err := openDead(ctx, file)
		if err != nil {
			return left{}
		}
		run, done = disk.Path()+"/"+bundle.JobRun, func() { _ = disk.Close() }
	}
	defer done()
	return left{bundle.ReadExit(run), bundle.ReadStart(run), bundle.ReadSteps(run)}
}

// openDead opens a disk once the kernel has unmounted it, which may be a moment
// after the processes have ended.
func openDead(ctx context.Context, file string) (*container.Disk, error) {
	ctx, cancel := context.WithTimeout(ctx, diskPatience)
	defer cancel()
	for {
		used, err := container.DiskInUse(file)
		if err != nil {
			return nil, err
		}
		if !used {
			return container.OpenDisk(file, true)
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("something still uses it")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
