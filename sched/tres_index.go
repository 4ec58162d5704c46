package sched

import (
	"math"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched/billing"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// TRESIndex finds the entries of an Amounts, and fills them in. All code that
// counts what a job holds uses it, so that all count alike. Only one goroutine
// may use it at a time.
type TRESIndex struct {
	Names    []string
	licenses []int // by position in Snapshot.Licenses; -1 = not counted
	kinds    []billing.Kind
	models   map[string]int // as devices name them; -1 = not counted

	billing, cpu, gpu, memory, node int // -1 = not counted
}

// Prefixes of the TRES that there are several of: GPUs of a model, and licenses.
const (
	TRESModel   = TRESGPU + ":"
	TRESLicense = "license/"
)

// NewTRESIndex is for amounts of these names, which ascend, in a cluster with
// these licenses.
func NewTRESIndex(names []string, licenses []License) *TRESIndex {
	x := &TRESIndex{Names: names, kinds: make([]billing.Kind, len(names)), models: map[string]int{}}
	x.billing, x.cpu, x.gpu = x.find(TRESBilling), x.find(TRESCPU), x.find(TRESGPU)
	x.memory, x.node = x.find(TRESMemory), x.find(TRESNode)
	for i, name := range names {
		switch {
		case name == TRESCPU:
			x.kinds[i] = billing.CPU
		case name == TRESMemory:
			x.kinds[i] = billing.Memory
		case strings.HasPrefix(name, TRESLicense):
			x.kinds[i] = billing.Global
		case name != TRESBilling:
			x.kinds[i] = billing.OfNode
		}
	}
	for _, license := range licenses {
		x.licenses = append(x.licenses, x.find(TRESLicense+license.Name))
	}
	return x
}

func (x *TRESIndex) find(name string) int {
	at, found := slices.BinarySearch(x.Names, name)
	if !found {
		return -1
	}
	return at
}

// New is amounts of nothing.
func (x *TRESIndex) New() Amounts { return make(Amounts, len(x.Names)) }

// AddNode adds a node with CPUs and bytes of memory of it.
func (x *TRESIndex) AddNode(to Amounts, cpus, memory uint64) {
	to.add(x.node, 1)
	to.add(x.cpu, cpus)
	to.add(x.memory, memory)
}

// AddGPUs adds GPUs of a model; "" = nobody knows which.
func (x *TRESIndex) AddGPUs(to Amounts, model string, count uint64) {
	to.add(x.gpu, count)
	if model == "" {
		return
	}
	at, known := x.models[model]
	if !known {
		if at = x.find(TRESModel + model); at < 0 {
			at = x.find(TRESModel + strings.ToLower(model))
		}
		x.models[model] = at
	}
	to.add(at, count)
}

// Complete adds the licenses, and then what all of it is billed in a
// partition.
func (x *TRESIndex) Complete(to Amounts, licenses []LicenseCount, weights []int64, maxTRES bool) {
	for _, l := range licenses {
		if l.License < len(x.licenses) {
			to.add(x.licenses[l.License], uint64(l.Count))
		}
	}
	x.bill(to, weights, maxTRES)
}

func (x *TRESIndex) bill(to Amounts, weights []int64, maxTRES bool) {
	if x.billing >= 0 {
		to[x.billing] = billing.Weighted(to, weights, x.kinds, maxTRES) / billing.Scale
	}
}

// add stops at the highest number.
func (a Amounts) add(at int, n uint64) {
	if at >= 0 {
		a[at] = billing.Add(a[at], int64(min(n, math.MaxInt64)))
	}
}

// addLeast is what a request holds at least, and what some node of it holds.
func (x *TRESIndex) addLeast(all, node Amounts, r *place.Request) (wholeMemory bool) {
	least := r.Least()
	all.add(x.node, least.Nodes)
	all.add(x.cpu, least.CPUs)
	all.add(x.memory, least.MemoryBytes)
	x.AddGPUs(all, r.Model, least.GPUs)
	x.AddNode(node, least.NodeCPUs, least.NodeMemoryBytes)
	x.AddGPUs(node, r.Model, least.NodeGPUs)
	return least.WholeMemory
}

// addAlloc is what a job holds on one node.
func (x *TRESIndex) addAlloc(to Amounts, alloc *place.Alloc, nodes []place.Node) {
	x.AddNode(to, uint64(alloc.CPUs.Count()), alloc.MemoryBytes)
	for _, grant := range alloc.Devices {
		x.AddGPUs(to, nodes[alloc.Node].Devices[grant.Device].Model, 1)
	}
}
