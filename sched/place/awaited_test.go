package place

import (
	"slices"
	"testing"
)

// TestAwaited: what a suspended job waits for is given last, near the devices or not, and it
// is given where there is nothing else. What a job gets stays in order.
func TestAwaited(t *testing.T) {
	for _, c := range []struct {
		free, near, awaited, want CPUSet
		n                         int
	}{
		{FirstCPUs(4), CPUSet{}, NewCPUSet(0), NewCPUSet(1, 2), 2},
		{FirstCPUs(4), CPUSet{}, NewCPUSet(0, 1, 2), NewCPUSet(0, 3), 2},
		{FirstCPUs(4), CPUSet{}, FirstCPUs(4), NewCPUSet(0), 1},
		{FirstCPUs(4), NewCPUSet(0, 1), NewCPUSet(0), NewCPUSet(1, 2), 2},
		{FirstCPUs(4), NewCPUSet(0, 1), NewCPUSet(9), NewCPUSet(0, 1), 2},
		{FirstCPUs(4), CPUSet{}, NewCPUSet(0), FirstCPUs(4), 4},
	} {
		if got := pickCPUs(c.free, c.near, c.awaited, c.n); !got.Equal(c.want) {
			t.Errorf("%d of %v, near %v, awaited %v: %v, want %v", c.n, c.free, c.near, c.awaited, got, c.want)
		}
	}
	node := func(awaited ...bool) *Node {
		n := &Node{}
		for i, is := range awaited {
			n.Devices = append(n.Devices, Device{Index: uint32(i), Model: "a", Healthy: true, Parent: WholeDevice, Shares: 1, FreeShares: 1, Awaited: is})
		}
		return n
	}
	linked := node(false, true, false, true) // 1 and 3 are a pair: links count for more
	linked.Devices[1].Links, linked.Devices[3].Links = []DeviceIndex{3}, []DeviceIndex{1}
	for _, c := range []struct {
		node  *Node
		count int
		want  []DeviceIndex
	}{
		{node(true, false, false), 1, []DeviceIndex{1}},
		{node(true, false, true), 2, []DeviceIndex{0, 1}},
		{node(true, true), 1, []DeviceIndex{0}},
		{linked, 2, []DeviceIndex{1, 3}},
		{linked, 1, []DeviceIndex{0}},
	} {
		grants, _ := pickDevices(c.node, "a", c.count, false)
		var got []DeviceIndex
		for _, grant := range grants {
			got = append(got, grant.Device)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d of %+v: %v, want %v", c.count, c.node.Devices, got, c.want)
		}
	}
}
