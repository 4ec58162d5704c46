package container

import (
	"strings"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// memorySigns are how libcontainer says that the memory of the control group was too
// little for its own beginnings, for which it has no errors of a kind: version 1
// refuses a limit below what is in use, any kernel kills whoever exceeds it.
var memorySigns = []string{"unable to set memory limit to", "container init was OOM-killed"}

// lacksMemory says whether process 1 did not start for want of the memory that the
// job's user chose.
func (c *Container) lacksMemory(err error) bool {
	for _, sign := range memorySigns {
		if strings.Contains(err.Error(), sign) {
			return true
		}
	}
	// libcontainer has removed the group, unless process 1 was there.
	group, err := cgroup.Open(c.spec.Cgroup.Path)
	if err != nil {
		return false
	}
	usage, err := group.Usage()
	return err == nil && usage.OOMKills > 0
}
