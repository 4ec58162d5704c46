package container

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Prepare reads the files that an image of the container would refer to, while
// the processes still run, and remembers their digests. Otherwise gigabytes of
// libraries would be read while the processes are frozen. Save reads what Prepare does
// not find or cannot read.
func (c *Container) Prepare(ctx context.Context) {
	group, err := cgroup.Open(c.spec.Cgroup.Path)
	if err != nil {
		return
	}
	pids, err := group.Procs()
	if err != nil {
		return
	}
	used, err := checkpoint.UsedFiles(pids)
	if err != nil {
		return
	}
	places, err := c.places()
	if err != nil {
		return
	}
	for _, u := range used {
		where := places.of(u.Path)
		if ctx.Err() != nil {
			return
		}
		if c.spec.Root == nil && where == placeRoot && !isFile(filepath.Join(c.spec.LayerDir, "upper", u.Path)) || where == placeShared && u.Mapped && !u.Written {
			_, _ = c.lookAt(ctx, u)
		}
	}
	_, _ = hashes.Look(fmt.Sprintf("/proc/%d/exe", c.Pid()))
}
