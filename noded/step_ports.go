package noded

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// The ports of steps: each allocation of the node has a block of its own, from which its
// steps are told one at which their tasks may meet (MASTER_PORT).
const (
	// defaultStepPorts are below those that the kernel gives to connections.
	defaultStepPorts = "20000-28191"
	noStepPorts      = "none"
	leastStepPort    = 1024
)

// PortRange are the ports of steps; the zero value has none.
type PortRange struct{ First, Last int }

// checkStepPorts reads step_ports.
func (f *configFile) checkStepPorts(c *Config) error {
	text := f.StepPorts
	switch text {
	case "":
		text = defaultStepPorts
	case noStepPorts:
		return nil
	}
	low, high, isRange := strings.Cut(text, "-")
	first, err := strconv.ParseUint(low, 10, 16)
	last, errLast := strconv.ParseUint(high, 10, 16)
	if !isRange || err != nil || errLast != nil || first < leastStepPort || last < first+bundle.StepPorts-1 {
		return fmt.Errorf("step_ports %q: give a range of at least %d ports above %d, such as %s, or %q", shorten(f.StepPorts), bundle.StepPorts, leastStepPort-1, defaultStepPorts, noStepPorts)
	}
	c.StepPorts = PortRange{int(first), int(last)}
	return nil
}

// portBlocks gives allocations their blocks. What is taken it reads from their
// settings, so that it forgets nothing when the daemon starts again.
type portBlocks struct {
	mu        sync.Mutex
	launching map[int]bool // by the first port; not in any settings yet
	next      int          // the number of the block to look at first, so that one rests before it is used again
}

// take answers the first port of a block that no allocation has; 0 = all are taken, or
// there are none. done says that the settings are written, or never will be.
func (b *portBlocks) take(ports PortRange, stateDir string) (first int, done func()) {
	blocks := (ports.Last - ports.First + 1) / bundle.StepPorts
	if ports.First == 0 || blocks == 0 {
		return 0, func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := takenBlocks(stateDir)
	for i := range blocks {
		number := (b.next + i) % blocks
		first := ports.First + number*bundle.StepPorts
		if taken[first] || b.launching[first] {
			continue
		}
		b.next = (number + 1) % blocks
		if b.launching == nil {
			b.launching = map[int]bool{}
		}
		b.launching[first] = true
		return first, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.launching, first)
		}
	}
	return 0, func() {}
}

func takenBlocks(stateDir string) map[int]bool {
	taken := map[int]bool{}
	paths, _ := filepath.Glob(filepath.Join(stateDir, bundle.JobsDir, "*", bundle.SettingsFile)) // the pattern is sound
	for _, path := range paths {
		if settings, err := bundle.Dir(filepath.Dir(path)).Settings(); err == nil && settings.StepPort > 0 {
			taken[settings.StepPort] = true
		}
	}
	return taken
}
