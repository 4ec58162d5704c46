package container

import (
	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// NotSavable answers what keeps the container from being saved as it is now;
// nothing = nothing is known. The container may run.
func (c *Container) NotSavable() ([]checkpoint.Obstacle, error) {
	group, err := cgroup.Open(c.spec.Cgroup.Path)
	if err != nil {
		return nil, err
	}
	return checkpoint.Obstacles(group)
}
