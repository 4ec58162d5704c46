package container

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// NotSavable answers what prevents a save of the container now; nothing = no obstacle is
// known. The container may run.
func (c *Container) NotSavable() ([]checkpoint.Obstacle, error) {
	group, err := cgroup.Open(c.spec.Cgroup.Path)
	if err != nil {
		return nil, err
	}
	own, err := c.own()
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH) {
		return nil, nil // it has just ended
	}
	if err != nil {
		return nil, err
	}
	defer own.root.Close()
	return checkpoint.Obstacles(group, c.spec.Peers, own.holds, c.spec.ResetsOutside)
}

// Nested answers what prevents a save because of a container that the job has made inside
// its own; false = there is none.
func (c *Container) Nested() (checkpoint.Obstacle, bool, error) {
	group, err := cgroup.Open(c.spec.Cgroup.Path)
	if err != nil {
		return checkpoint.Obstacle{}, false, err
	}
	return checkpoint.Nested(group)
}
