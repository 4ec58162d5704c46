package place

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// What is kept is not there for guests, and for nobody else does it matter to whether a
// request fits.
func TestKeptDevices(t *testing.T) {
	guests, fewer := 0, 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 7))
		nodes := randomNodes(random, 1+random.IntN(5))
		candidates := make([]NodeIndex, len(nodes))
		request := randomRequest(random, nodes)
		gone := slices.Clone(nodes)
		for i := range nodes {
			candidates[i] = NodeIndex(i)
			nodes[i].Devices = slices.Clone(nodes[i].Devices)
			guest := random.IntN(2) == 0
			if guest {
				request.GuestOn = append(request.GuestOn, nodes[i].Name)
			}
			for d := range nodes[i].Devices {
				nodes[i].Devices[d].Kept = random.IntN(2) == 0
			}
			gone[i].Devices = slices.Clone(nodes[i].Devices)
			for d := range gone[i].Devices {
				if guest && gone[i].Devices[d].Kept {
					gone[i].Devices[d].FreeShares = 0
				}
			}
		}
		slices.Sort(request.GuestOn)
		got, short, fits := Fit(nodes, candidates, request)
		owner := request
		owner.GuestOn = nil
		want, wantShort, wantFits := Fit(gone, candidates, owner)
		if fits != wantFits || !reflect.DeepEqual(got, want) || short != wantShort {
			t.Fatalf("seed %d: a guest gets %+v (%+v), and without the devices %+v (%+v)", seed, got, short, want, wantShort)
		}
		if len(request.GuestOn) > 0 && request.WantsGPUs() {
			guests++
			if _, _, owners := Fit(nodes, candidates, owner); owners && !fits {
				fewer++
			}
		}
	}
	if guests < 500 || fewer < 20 {
		t.Errorf("only %d guests, of whom %d do not fit", guests, fewer)
	}
}

// The owner's jobs get what is kept for them before anything else.
func TestKeptDevicesComeFirst(t *testing.T) {
	for _, test := range []struct {
		name   string
		links  map[int][]DeviceIndex
		want   uint32
		chosen string
	}{
		{"the kept ones", nil, 2, "5-6"},
		{"one of the kept ones", nil, 1, "5"},
		{"more than there are: as always", nil, 3, "0-2"},
		{"a kept one before a linked pair", pairs(8), 2, "5-6"},
	} {
		nodes := []Node{nodeWith(8, test.links)}
		nodes[0].Devices[5].Kept, nodes[0].Devices[6].Kept = true, true
		p, _, fits := Fit(nodes, []NodeIndex{0}, Request{GPUsPerNode: test.want, MemoryPerNode: 1})
		if !fits {
			t.Fatal(test.name)
		}
		var ids []uint32
		for _, grant := range p.Allocs[0].Devices {
			ids = append(ids, uint32(grant.Device))
		}
		if got := NewCPUSet(ids...).String(); got != test.chosen {
			t.Errorf("%s: devices %s, want %s", test.name, got, test.chosen)
		}
	}
}
