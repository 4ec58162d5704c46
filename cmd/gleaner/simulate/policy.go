package simulate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clusterfile"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/proto/similar"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/tomlfile"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// readPolicy finds a policy by its name, or reads a cluster.toml.
func readPolicy(ctx context.Context, word string) (sim.Policy, error) {
	for _, policy := range sim.Policies {
		if policy.Name == word {
			return policy, nil
		}
	}
	if !strings.ContainsAny(word, "./") {
		hint := ""
		if meant := similar.Nearest(word, policyNames()); meant != "" {
			hint = "; did you mean " + meant + "?"
		}
		return sim.Policy{}, fmt.Errorf("%q is no policy: there are %s, and files such as ./cluster.toml%s", word, strings.Join(policyNames(), ", "), hint)
	}
	text, err := console.ReadFile(ctx, word, clusterfile.MaxBytes)
	if err != nil {
		return sim.Policy{}, err
	}
	read, err := clusterfile.Parse(text)
	if err != nil {
		return sim.Policy{}, fmt.Errorf("%s: %w", word, err)
	}
	s, p := read.GetScheduler(), read.GetPriority()
	return sim.Policy{
		Name: filepath.Base(word),
		Backfill: sched.BackfillPolicy{
			On: s.GetType() == "backfill", PartJobs: s.GetBfJobPartCountReserve(), MaxJobs: s.GetBfMaxJobTest(),
			ArrayTasks: s.GetBfMaxJobArrayResv(), ShortestFirst: s.GetBfShortestFirst(),
		},
		Priority: sched.PriorityPolicy{
			WeightAge: p.GetWeightAge(), WeightJobSize: p.GetWeightJobSize(), MaxAgeS: p.GetMaxAgeS(),
			FavorSmall: p.GetFavorSmall(), SmallRelativeToTime: p.GetSmallRelativeToTime(),
		},
	}, nil
}

// clusterNodes is a file that describes a cluster.
type clusterNodes struct {
	Nodes []struct {
		Name string `toml:"name"`
		CPUs uint32 `toml:"cpus"`
		GPUs uint32 `toml:"gpus"`
	} `toml:"node"`
}

const maxNodes = 20_000

// readCluster reads what the jobs run on. A processor of the trace is a GPU if the nodes
// have some, and a CPU if not; a job that needs more than one node gets whole nodes.
func readCluster(ctx context.Context, path string) (sim.Cluster, error) {
	text, err := console.ReadFile(ctx, path, clusterfile.MaxBytes)
	if err != nil {
		return sim.Cluster{}, err
	}
	var file clusterNodes
	if err := tomlfile.Decode(text, &file); err != nil {
		return sim.Cluster{}, err
	}
	var cluster sim.Cluster
	perNode := uint32(0)
	for i, kind := range file.Nodes {
		names, err := spec.ParseHostList(kind.Name)
		switch {
		case err != nil:
			return sim.Cluster{}, fmt.Errorf("[[node]] number %d: name: %w", i+1, err)
		case len(names) == 0 || kind.CPUs == 0 || kind.CPUs > place.MaxCPUs || kind.GPUs > 1024:
			return sim.Cluster{}, fmt.Errorf("[[node]] number %d needs a name, and between 1 and %d cpus, and at most 1024 gpus", i+1, place.MaxCPUs)
		case len(cluster.Nodes)+len(names) > maxNodes:
			return sim.Cluster{}, fmt.Errorf("there are more than %d nodes", maxNodes)
		case i > 0 && (kind.GPUs != file.Nodes[0].GPUs || kind.GPUs == 0 && kind.CPUs != file.Nodes[0].CPUs):
			return sim.Cluster{}, errors.New("the nodes have different numbers of processors; a trace does not say which of them its jobs would have used, so give them as many each")
		}
		for _, name := range names {
			cluster.Nodes = append(cluster.Nodes, node(name, kind.CPUs, kind.GPUs))
		}
		perNode = kind.CPUs
		if kind.GPUs > 0 {
			perNode = kind.GPUs
		}
	}
	if len(cluster.Nodes) == 0 {
		return sim.Cluster{}, errors.New("there is no [[node]] in it")
	}
	slices.SortFunc(cluster.Nodes, func(a, b place.Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range cluster.Nodes[1:] {
		if cluster.Nodes[i].Name == cluster.Nodes[i+1].Name {
			return sim.Cluster{}, fmt.Errorf("node %s is there twice", cluster.Nodes[i].Name)
		}
	}
	cluster.Processors = perNode * uint32(len(cluster.Nodes))
	gpus := file.Nodes[0].GPUs > 0
	cluster.Request = func(processors uint32) place.Request { return request(processors, perNode, gpus) }
	return cluster, nil
}

func node(name string, cpus, gpus uint32) place.Node {
	n := place.Node{
		Name: name, Available: true, CPUs: place.FirstCPUs(cpus), FreeCPUs: place.FirstCPUs(cpus),
		MemoryBytes: 1 << 40, FreeMemory: 1 << 40, TmpOpen: true,
	}
	for i := range gpus {
		n.Devices = append(n.Devices, place.Device{Index: i, Model: "gpu", Healthy: true, Parent: place.WholeDevice, Shares: 1, FreeShares: 1})
	}
	return n
}

// request is what a job that used so many processors asks for.
func request(processors, perNode uint32, gpus bool) place.Request {
	nodes := (processors-1)/perNode + 1
	r := place.Request{MinNodes: nodes, MaxNodes: nodes, MemoryPerNode: 1}
	each := min(processors, perNode)
	if gpus {
		r.GPUsPerNode = each
	} else {
		r.CPUsPerTask = each
	}
	return r
}
