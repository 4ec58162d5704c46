package roots

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// What all processes that fetch and unpack images on a node may have together. They get
// the CPU time that jobs leave, or that of one CPU.
const (
	fetchMemory = 2 << 30
	fetchPids   = 1024
	fetchCPUs   = 1
	// confineTries is how often a group is made that others remove at that moment, because
	// it is empty.
	confineTries = 10
)

// confine puts a process into the group of those that fetch and unpack.
func (c *Cache) confine(pid int) error {
	if c.Group == "" {
		return nil
	}
	group := c.group()
	var err error
	for range confineTries {
		if err = group.Create(); err == nil {
			err = group.Add(pid)
		}
		if err == nil || errors.Is(err, unix.ESRCH) {
			return nil // it has ended by itself
		}
	}
	return fmt.Errorf("bound what fetches and unpacks container images: %w", err)
}

// release removes the group once nobody is in it.
func (c *Cache) release() {
	if c.Group == "" {
		return
	}
	if _, err := c.group().RemoveEmpty(); err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		c.Log.Warn("the control group of what fetches container images stays", "group", c.Group, "error", err)
	}
}

func (c *Cache) group() *cgroup.Group {
	return cgroup.New(c.Group, cgroup.Limits{CPUWeight: fetchCPUs, MemoryBytes: fetchMemory, Pids: fetchPids})
}
