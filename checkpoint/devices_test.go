package checkpoint

import (
	"slices"
	"testing"
)

// TestReplaceDevices: each device of an image has one of the container's in its
// place, and no two have the same.
func TestReplaceDevices(t *testing.T) {
	gpus := func(paths ...string) (all []Device) {
		for _, path := range paths {
			all = append(all, Device{Path: "/dev/" + path, Companion: path == "ctl" || path == "uvm"})
		}
		return all
	}
	for name, row := range map[string]struct {
		was, have []Device
		want      []int
		misfits   []string // their properties
	}{
		"none":                      {nil, nil, nil, nil},
		"the same":                  {gpus("0", "1", "ctl"), gpus("0", "1", "ctl"), []int{0, 1, 2}, nil},
		"another order":             {gpus("0", "1", "ctl"), gpus("ctl", "1", "0"), []int{2, 1, 0}, nil},
		"other names":               {gpus("0", "1"), gpus("7", "a"), []int{0, 1}, nil},
		"one of them at its place":  {gpus("0", "1"), gpus("1", "2"), []int{1, 0}, nil},
		"the last at the first's":   {gpus("0", "1", "2"), gpus("5", "4", "0"), []int{2, 0, 1}, nil},
		"a companion more":          {gpus("0", "ctl"), gpus("uvm", "3", "ctl"), []int{1, 2}, nil},
		"a companion less":          {gpus("0", "ctl", "uvm"), gpus("0", "ctl"), []int{0, 1, -1}, []string{"device /dev/uvm"}},
		"a GPU less":                {gpus("0", "1"), gpus("1"), []int{-1, 0}, []string{"GPU"}},
		"a GPU more":                {gpus("0"), gpus("1", "0"), []int{1}, []string{"GPU"}},
		"none any more":             {gpus("0", "ctl"), nil, []int{-1, -1}, []string{"GPU", "device /dev/ctl"}},
		"a GPU named as companions": {[]Device{{Path: "/dev/ctl"}}, gpus("0", "ctl"), []int{0}, nil},
	} {
		got, found := ReplaceDevices(row.was, row.have)
		var properties []string
		for _, misfit := range found {
			properties = append(properties, misfit.Property)
		}
		if !slices.Equal(got, row.want) || !slices.Equal(properties, row.misfits) {
			t.Errorf("%s: %v, %v", name, got, found)
		}
	}
}
