package container

import (
	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// NotSavable answers what keeps the container from being saved as it is now;
// nothing = nothing is known. The container may run. parked says that what
// its own devices hold is saved by other means.
func (c *Container) NotSavable(parked bool) ([]checkpoint.Obstacle, error) {
	group, err := cgroup.Open(c.spec.Cgroup.Path)
	if err != nil {
		return nil, err
	}
	return checkpoint.Obstacles(group, func(major, minor uint32) bool {
		for _, d := range c.spec.Devices {
			if parked && uint32(d.Major) == major && uint32(d.Minor) == minor {
				return true
			}
		}
		return false
	})
}
