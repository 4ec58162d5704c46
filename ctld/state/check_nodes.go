package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// checkNodes compares what each node's jobs hold with what is booked, and that
// with what the node has.
func (t *tables) checkNodes(want *census) error {
	var errs []error
	if awaited := len(t.Awaited()); awaited != int(t.awaited) {
		errs = append(errs, fmt.Errorf("%d nodes are awaited, %d are counted", awaited, t.awaited))
	}
	reclaimed, crossed, within := 0, 0, t.policy.GangRange.Prefixes()
	for name := range want.uses {
		if _, known := t.nodes.Get(name); !known {
			errs = append(errs, errors.New("jobs hold a node that is not known"))
		}
	}
	for node := range t.Nodes() {
		counted := want.uses[node.Name]
		if counted == nil {
			counted = &nodeUse{}
		}
		errs = append(errs, sameUse(node, counted), checkFits(node), t.checkReclaimed(node), t.checkLent(node), t.checkHabit(node), node.checkBounds())
		if node.Reclaim != nil {
			reclaimed++
		}
		if node.crossed(within) != "" {
			crossed++
		}
	}
	t.habits.Scan(func(name string, _ struct{}) bool {
		if _, known := t.nodes.Get(name); !known {
			errs = append(errs, fmt.Errorf("something is known of the owner of node %s, and not the node", name))
		}
		return true
	})
	t.lending.Scan(func(name string, _ struct{}) bool {
		if _, known := t.nodes.Get(name); !known {
			errs = append(errs, fmt.Errorf("node %s has terms of lending and is not known", name))
		}
		return true
	})
	if t.crossed.Len() != crossed {
		errs = append(errs, fmt.Errorf("%d nodes have routes into the range of networks between nodes, the index has %d", crossed, t.crossed.Len()))
	}
	if t.reclaimed.Len() != reclaimed {
		errs = append(errs, fmt.Errorf("%d nodes are reclaimed, the index has %d", reclaimed, t.reclaimed.Len()))
	}
	return errors.Join(errs...)
}

func sameUse(node *Node, counted *nodeUse) error {
	use := node.use
	if !use.cpus.Equal(counted.cpus) || use.memoryBytes != counted.memoryBytes || use.tmpBytes != counted.tmpBytes || use.exclusive != counted.exclusive || use.parked != counted.parked || use.parkedMemory != counted.parkedMemory ||
		!slices.Equal(use.devices, counted.devices) || !slices.Equal(use.jobs, counted.jobs) || !slices.Equal(use.users, counted.users) {
		return fmt.Errorf("node %s: booked are %+v, its jobs hold %+v", node.Name, *use, *counted)
	}
	return use.checkUsers(node.Name)
}

// checkFits checks allocated + free = total: nothing is allocated that does not
// exist, or more often than it may be. A node that registered with less than
// its jobs hold is the one exception, and takes no jobs.
func checkFits(node *Node) error {
	if node.Inventory == nil {
		if len(node.use.jobs) > 0 {
			return fmt.Errorf("node %s never registered and has jobs", node.Name)
		}
		return nil
	}
	if node.Shrunk {
		return nil
	}
	if missing := node.missing(); missing != "" {
		return fmt.Errorf("node %s: %s is given and not there", node.Name, missing)
	}
	all := place.FirstCPUs(node.Inventory.CPUs)
	if free := all.Minus(node.use.cpus); free.Count()+node.use.cpus.Count() != all.Count() {
		return fmt.Errorf("node %s: %d CPUs given and %d free are not %d", node.Name, node.use.cpus.Count(), free.Count(), all.Count())
	}
	for i := range node.Inventory.Devices {
		device := &node.Inventory.Devices[i]
		if held := node.use.sharesOf(device.ID); held > device.Shares {
			return fmt.Errorf("node %s: %d shares of device %s are given, it has %d", node.Name, held, device.ID, device.Shares)
		} else if held > 0 && node.use.overlaps(node, device) {
			return fmt.Errorf("node %s: device %s and one that contains it are both given", node.Name, device.ID)
		}
	}
	return nil
}
