package place

import (
	"fmt"
	"testing"
)

// nodeWith is a node with 16 CPUs and one device per entry, linked as links
// says, and near the CPUs of its half of the node.
func nodeWith(devices int, links map[int][]DeviceIndex) Node {
	n := Node{Name: "n", Available: true, CPUs: FirstCPUs(16), FreeCPUs: FirstCPUs(16), MemoryBytes: 1 << 30, FreeMemory: 1 << 30}
	low := FirstCPUs(8)
	for i := range devices {
		near := low
		if i >= devices/2 {
			near = n.CPUs.Minus(low)
		}
		n.Devices = append(n.Devices, Device{
			Index: uint32(i), Model: "a100", Healthy: true, Parent: WholeDevice,
			Shares: 1, FreeShares: 1, Links: links[i], NearCPUs: near,
		})
	}
	return n
}

// pairs links 0-1, 2-3 and so on.
func pairs(devices int) map[int][]DeviceIndex {
	links := make(map[int][]DeviceIndex)
	for i := range devices {
		links[i] = []DeviceIndex{DeviceIndex(i ^ 1)}
	}
	return links
}

// islands links all devices within groups of size.
func islands(devices, size int) map[int][]DeviceIndex {
	links := make(map[int][]DeviceIndex)
	for i := range devices {
		for j := i / size * size; j < (i/size+1)*size; j++ {
			if j != i {
				links[i] = append(links[i], DeviceIndex(j))
			}
		}
	}
	return links
}

func TestDevicesAreChosenByLinks(t *testing.T) {
	for _, test := range []struct {
		name   string
		links  map[int][]DeviceIndex
		taken  []DeviceIndex
		want   uint32
		chosen string
		cpus   string
	}{
		{"no links: the lowest", nil, nil, 2, "0-1", "0-1"},
		{"a whole pair, not two halves", pairs(8), []DeviceIndex{0}, 2, "2-3", "0-1"},
		{"one from a broken pair", pairs(8), []DeviceIndex{5}, 1, "4", "8-9"},
		{"two pairs", pairs(8), []DeviceIndex{1}, 4, "2-5", "0-1"},
		{"one island", islands(8, 4), []DeviceIndex{0}, 4, "4-7", "8-9"},
		{"the island that is already broken", islands(8, 4), []DeviceIndex{4}, 3, "5-7", "8-9"},
		{"everything", islands(8, 4), nil, 8, "0-7", "0-1"},
		{"most of an island and one more", islands(8, 4), nil, 5, "0-4", "0-1"},
	} {
		nodes := []Node{nodeWith(8, test.links)}
		for _, device := range test.taken {
			nodes[0].Devices[device].FreeShares = 0
		}
		p, short, fits := Fit(nodes, []NodeIndex{0}, Request{GPUsPerNode: test.want, CPUsPerTask: 2, MemoryPerNode: 1})
		if !fits {
			t.Errorf("%s: does not fit: %+v", test.name, short)
			continue
		}
		var ids []uint32
		for _, grant := range p.Allocs[0].Devices {
			ids = append(ids, uint32(grant.Device))
		}
		if got := NewCPUSet(ids...).String(); got != test.chosen || p.Allocs[0].CPUs.String() != test.cpus {
			t.Errorf("%s: devices %s and CPUs %s, want %s and %s", test.name, got, p.Allocs[0].CPUs, test.chosen, test.cpus)
		}
	}
}

func TestSlicesAndPartsOfDevicesAreNotGiven(t *testing.T) {
	n := nodeWith(4, nil)
	n.Devices[0].Parent = 3
	n.Devices[1].FreeShares, n.Devices[1].Shares = 1, 2
	n.Devices[2].Shares, n.Devices[2].FreeShares = 0, 0
	for want, fits := range map[uint32]bool{1: true, 2: false} {
		if _, _, got := Fit([]Node{n}, []NodeIndex{0}, Request{GPUsPerNode: want, MemoryPerNode: 1}); got != fits {
			t.Errorf("%d devices: fits is %v", want, got)
		}
	}
}

func TestFarCPUsWhenTheNearOnesAreGone(t *testing.T) {
	n := nodeWith(2, nil)
	n.FreeCPUs = n.FreeCPUs.Remove(0, 1, 2, 3, 4, 5)
	p, _, fits := Fit([]Node{n}, []NodeIndex{0}, Request{GPUsPerNode: 1, CPUsPerTask: 4, MemoryPerNode: 1})
	if !fits || p.Allocs[0].CPUs.String() != "6-9" {
		t.Errorf("%v, fits %v", p, fits)
	}
}

func TestTakeLeavesSharedDevicesAlone(t *testing.T) {
	original := []Node{nodeWith(4, nil)}
	nodes := []Node{original[0]}
	before := fmt.Sprint(original)
	p, _, _ := Fit(nodes, []NodeIndex{0}, Request{GPUsPerNode: 2, MemoryPerNode: 1 << 20})
	Take(nodes, p, true)
	if fmt.Sprint(original) != before {
		t.Error("the snapshot's node has changed")
	}
	if free, _, _ := freeGPUs(&nodes[0], "a100", false); free != 2 || nodes[0].FreeCPUs.Count() != 15 || !nodes[0].Exclusive || !nodes[0].Busy {
		t.Errorf("after Take: %+v", nodes[0])
	}
	if idle := Idle(nodes[0], false); fmt.Sprint([]Node{idle}) != before {
		t.Errorf("idle again: %+v", idle)
	}
}
