package place

import "testing"

// TestBack: a job gets its own CPUs and devices back, all of them or none, and of
// healthy devices only; what is taken back is not free, and lists that others share
// stay as they are. It shares its nodes as any job does.
func TestBack(t *testing.T) {
	device := func(healthy bool, free uint32) Device {
		return Device{Healthy: healthy, Parent: WholeDevice, Shares: 1, FreeShares: free}
	}
	back := Alloc{CPUs: NewCPUSet(1, 2), Devices: []Grant{{Device: 1, Shares: 1}}}
	for _, c := range []struct {
		name   string
		free   CPUSet
		second Device
		want   bool
	}{
		{"all is free", FirstCPUs(4), device(true, 1), true},
		{"a CPU is not", NewCPUSet(0, 1, 3), device(true, 1), false},
		{"the device is not", FirstCPUs(4), device(true, 0), false},
		{"the device is broken", FirstCPUs(4), device(false, 1), false},
	} {
		nodes := []Node{{CPUs: FirstCPUs(4), FreeCPUs: c.free, Devices: []Device{device(true, 0), c.second}}}
		if got := HasBack(nodes, back); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		shared := nodes[0].Devices
		TakeBack(nodes, []Alloc{back})
		if n := nodes[0]; n.FreeCPUs.Contains(1) || n.Devices[1].FreeShares != 0 || shared[1].FreeShares != c.second.FreeShares {
			t.Errorf("%s: afterwards %+v, and before it was %+v", c.name, n, shared)
		}
	}
	for _, c := range []struct {
		node Node
		job  Stay
		want bool
	}{
		{Node{}, Stay{Exclusive: true}, true},
		{Node{Busy: true, Users: []uint32{7}}, Stay{User: 8}, true},
		{Node{Busy: true, Users: []uint32{7}}, Stay{User: 7, Exclusive: true}, false},
		{Node{Busy: true, Exclusive: true}, Stay{}, false},
		{Node{Busy: true, Users: []uint32{7}}, Stay{User: 8, UserOnly: true}, false},
		{Node{Busy: true, Users: []uint32{7}, UserOnly: true}, Stay{User: 8}, false},
		{Node{Busy: true, Users: []uint32{7}, UserOnly: true}, Stay{User: 7}, true},
	} {
		if got := c.node.Joins(c.job); got != c.want {
			t.Errorf("%+v joins %+v: %t", c.job, c.node, got)
		}
	}
}
