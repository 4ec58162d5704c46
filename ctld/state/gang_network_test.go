package state

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// TestNetworkOf: each allocation has an address that is neither the first nor the last of
// its job's network, jobs that follow each other have different ones, and all IPv6 networks
// of a site are different.
func TestNetworkOf(t *testing.T) {
	for _, text := range [][2]string{{"198.18.0.0/15", "fd6c:9a3e:11f2:7e06::/64"}, {"10.0.0.0/8", "fd00::/8"}, {"172.29.0.0/16", "2001:db8::/32"}} {
		site, err := spec.ParseGangRange(text[0], text[1])
		if err != nil {
			t.Fatal(err)
		}
		for nodes, bits := range map[int]int{2: 30, 3: 29, 6: 29, 7: 28, 254: 24, 255: 23, 65534: 16} {
			seen, seen6 := map[netip.Prefix]uint32{}, map[netip.Prefix]uint32{}
			for _, id := range []uint32{1, 2, 3, 1 << 20, 1<<32 - 1} {
				job := networkOf(site, id, nodes).Prefixes()
				if job.V4.Bits() != bits || job.V4 != job.V4.Masked() || !site.V4.Contains(job.V4.Addr()) {
					t.Fatalf("%s: job %d on %d nodes has %s", site.V4, id, nodes, job.V4)
				}
				if job.V6.Bits() != jobBits6 || job.V6 != job.V6.Masked() || !site.V6.Contains(job.V6.Addr()) {
					t.Fatalf("%s: job %d has %s", site.V6, id, job.V6)
				}
				if other := seen[job.V4]; id < 4 && other != 0 && bits > site.V4.Bits()+1 {
					t.Errorf("jobs %d and %d both have %s", other, id, job.V4)
				}
				if other := seen6[job.V6]; other != 0 {
					t.Errorf("jobs %d and %d both have %s", other, id, job.V6)
				}
				seen[job.V4], seen6[job.V6] = id, id
			}
		}
	}
}

// TestCrossed: a node whose routes lead into the range takes no part, and says which route
// and what to do.
func TestCrossed(t *testing.T) {
	for routes, want := range map[string]string{
		"10.0.0.0/8,192.168.0.0/16,fd00:1::/32,172.17.0.0/16": "",
		"0.0.0.0/0,0.0.0.0/1,128.0.0.0/1,::/0,2000::/3":       "", // they lead everywhere
		"10.0.0.0/8,198.18.4.0/24":                            "has a route to 198.18.4.0/24, and 198.18.0.0/15 is for the networks between the nodes of jobs: let an administrator set another gang_range in cluster.toml",
		"198.0.0.0/8":                                         "has a route to 198.0.0.0/8",
		"fd6c:9a3e:11f2::/48":                                 "set another gang_range6 in cluster.toml",
	} {
		node := &Node{Inventory: &Inventory{Routes: routesOf(strings.Split(routes, ","))}}
		if got := node.crossed(policy.GangRange{}.Prefixes()); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", routes, got)
		}
	}
	if got := (&Node{}).crossed(policy.GangRange{}.Prefixes()); got != "" {
		t.Error(got)
	}
}

func TestTakesSeveral(t *testing.T) {
	for _, c := range []struct {
		request place.Request
		want    bool
	}{
		{place.Request{}, false}, {place.Request{MinNodes: 1}, false}, {place.Request{MinNodes: 1, Tasks: 4}, false}, {place.Request{MinNodes: 2}, true},
		{place.Request{MinNodes: 1, MaxNodes: 3}, true}, {place.Request{Tasks: 2}, true}, {place.Request{GPUsPerJob: 8}, true},
		{place.Request{RequiredNodes: []string{"a", "b"}}, true}, {place.Request{MaxNodes: 1, Tasks: 9}, false},
	} {
		if got := takesSeveral(&c.request); got != c.want {
			t.Errorf("%+v: %t", c.request, got)
		}
	}
}
