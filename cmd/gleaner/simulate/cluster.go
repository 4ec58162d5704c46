package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clusterfile"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/tomlfile"
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/sim"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// clusterNodes is a file that describes a cluster.
type clusterNodes struct {
	Nodes []nodeKind `toml:"node"`
}

type nodeKind struct {
	Name  string `toml:"name"`
	CPUs  uint32 `toml:"cpus"`
	GPUs  uint32 `toml:"gpus"`
	Owner string `toml:"owner"` // an account of the trace
}

const maxNodes = 20_000

// readCluster reads what the jobs run on. A processor of the trace is a GPU if the nodes
// have some, and a CPU if not; a job that needs more than one node gets whole nodes.
func readCluster(ctx context.Context, path string) (sim.Cluster, error) {
	text, err := console.ReadFile(ctx, path, clusterfile.MaxBytes)
	if err != nil {
		return sim.Cluster{}, err
	}
	return parseCluster(text)
}

func parseCluster(text []byte) (sim.Cluster, error) {
	var file clusterNodes
	if err := tomlfile.Decode(text, &file); err != nil {
		return sim.Cluster{}, err
	}
	var cluster sim.Cluster
	owner := map[string]string{} // of each node
	for i, kind := range file.Nodes {
		names, err := kind.names(&file.Nodes[0])
		if err == nil && len(cluster.Nodes)+len(names) > maxNodes {
			err = fmt.Errorf("there are more than %d nodes", maxNodes)
		}
		if err != nil {
			return sim.Cluster{}, fmt.Errorf("[[node]] number %d: %w", i+1, err)
		}
		for _, name := range names {
			cluster.Nodes = append(cluster.Nodes, node(name, kind.CPUs, kind.GPUs))
			owner[name] = kind.Owner
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
	gpus := file.Nodes[0].GPUs > 0
	perNode := cmp.Or(file.Nodes[0].GPUs, file.Nodes[0].CPUs)
	cluster.Processors = perNode * uint32(len(cluster.Nodes))
	cluster.Request = func(job *trace.Job) place.Request { return request(job.Processors, perNode, gpus) }
	cluster.Owners = ownersOf(cluster.Nodes, owner, perNode)
	return cluster, nil
}

// names are the nodes of a kind, which have as many processors as those of the first.
func (k *nodeKind) names(first *nodeKind) ([]string, error) {
	names, err := spec.ParseHostList(k.Name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("name: %w", err)
	case len(names) == 0 || k.CPUs == 0 || k.CPUs > place.MaxCPUs || k.GPUs > 1024:
		return nil, fmt.Errorf("it needs a name, and between 1 and %d cpus, and at most 1024 gpus", place.MaxCPUs)
	case k.GPUs != first.GPUs || k.GPUs == 0 && k.CPUs != first.CPUs:
		return nil, errors.New("the nodes have different numbers of processors; a trace does not say which of them its jobs would have used, so give them as many each")
	}
	return names, nil
}

// ownersOf are the owners of nodes, by name.
func ownersOf(nodes []place.Node, owner map[string]string, perNode uint32) []sim.Owner {
	var owners []sim.Owner
	for i := range nodes {
		account := owner[nodes[i].Name]
		if account == "" {
			continue
		}
		at, known := slices.BinarySearchFunc(owners, account, func(o sim.Owner, account string) int { return strings.Compare(o.Account, account) })
		if !known {
			owners = slices.Insert(owners, at, sim.Owner{Account: account})
		}
		owners[at].Nodes = append(owners[at].Nodes, place.NodeIndex(i))
		owners[at].Processors += perNode
	}
	return owners
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
