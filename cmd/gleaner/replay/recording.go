package replay

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/sim"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// Bounds of a recording that is believed.
const (
	maxNodes      = 20_000
	maxGPUs       = 1024 // of a node
	maxAccounts   = 1_000_000
	maxPartitions = 10_000
)

// Recorded is what a recording is about. What ran is replayed from an idle cluster on,
// on the nodes that there are now. A run that is not over is taken to run as long again;
// a job that waits, as long as its user's last two runs on average, or to its limit.
type Recorded struct {
	Jobs    []trace.Job
	Cluster sim.Cluster
	Policy  *pb.Policy // in force when it was made
	LeftOut int        // runs for which there are no nodes now, or no partition

	recording *pb.Recording
}

// ErrNothingRecorded is returned for a recording without runs.
var ErrNothingRecorded = errors.New("no jobs are recorded in it yet: controllers remember runs from their ends on, as replay_runs under [scheduler] says")

// FromRecording checks a recording, and makes a workload of it.
func FromRecording(recording *pb.Recording) (*Recorded, error) {
	if recording.GetPolicy() == nil || len(recording.GetNodes()) == 0 {
		return nil, errors.New("there are no nodes in its recording; save it again when nodes have registered")
	}
	out := &Recorded{recording: recording, Policy: recording.GetPolicy()}
	if err := out.readNodes(recording); err != nil {
		return nil, err
	}
	cluster, err := out.Under(out.Policy)
	if err != nil {
		return nil, err
	}
	out.Cluster = cluster
	out.readRuns()
	if out.Keep(cluster); len(out.Jobs) == 0 {
		return nil, ErrNothingRecorded
	}
	return out, nil
}

// Under is the recorded cluster with the partitions and owners of another policy.
func (r *Recorded) Under(policy *pb.Policy) (sim.Cluster, error) {
	cluster := r.Cluster
	var err error
	if cluster.Partitions, err = partitions(policy, cluster.Nodes); err == nil {
		cluster.Owners, err = r.owners(policy)
	}
	return cluster, err
}

// Keep leaves out the jobs that could not run on a cluster.
func (r *Recorded) Keep(cluster sim.Cluster) {
	fits := map[*trace.Ask]bool{}
	before := len(r.Jobs)
	r.Jobs = slices.DeleteFunc(r.Jobs, func(job trace.Job) bool {
		can, known := fits[job.Asks]
		if !known {
			can = canRun(&job, cluster)
			fits[job.Asks] = can
		}
		return !can
	})
	r.LeftOut += before - len(r.Jobs)
}

// canRun reports whether the nodes of a job's partition have room for it when they are
// idle.
func canRun(job *trace.Job, cluster sim.Cluster) bool {
	at := slices.IndexFunc(cluster.Partitions, func(p sched.Partition) bool { return p.Name == job.Asks.Partition })
	if at < 0 || !cluster.Partitions[at].Up || int64(cluster.Partitions[at].MaxTimeS) < min(job.EstimateS, noLimitS) {
		return false
	}
	_, _, ok := place.Fit(cluster.Nodes, cluster.Partitions[at].Nodes, requestOf(job))
	return ok
}

func (r *Recorded) readNodes(recording *pb.Recording) error {
	if len(recording.GetNodes()) > maxNodes || len(recording.GetAccounts()) > maxAccounts {
		return fmt.Errorf("it has %d nodes and %d accounts, more than any cluster", len(recording.GetNodes()), len(recording.GetAccounts()))
	}
	gpus := uint32(0)
	for i, n := range recording.GetNodes() {
		if n.GetCpus() == 0 || n.GetCpus() > place.MaxCPUs || len(n.GetGpus()) > maxGPUs || n.GetMemoryBytes() > math.MaxInt64 || i > 0 && n.GetName() <= recording.GetNodes()[i-1].GetName() {
			return fmt.Errorf("node %q of its recording is impossible: %d CPUs, %d GPUs", n.GetName(), n.GetCpus(), len(n.GetGpus()))
		}
		r.Cluster.Nodes = append(r.Cluster.Nodes, recordedNode(n))
		gpus += uint32(len(n.GetGpus()))
		r.Cluster.Processors += n.GetCpus()
	}
	if gpus > 0 { // a processor is a GPU then
		r.Cluster.Processors = gpus
	}
	r.Cluster.Request = requestOf
	return nil
}

func recordedNode(n *pb.RecordedNode) place.Node {
	cpus := place.FirstCPUs(n.GetCpus())
	out := place.Node{
		Name: n.GetName(), Available: true, CPUs: cpus, FreeCPUs: cpus, MemoryBytes: n.GetMemoryBytes(), FreeMemory: n.GetMemoryBytes(), TmpOpen: true,
		Features: slices.Sorted(slices.Values(n.GetFeatures())),
	}
	for i, model := range n.GetGpus() {
		out.Devices = append(out.Devices, place.Device{Index: uint32(i), Model: model, Healthy: true, Parent: place.WholeDevice, Shares: 1, FreeShares: 1})
	}
	return out
}

// requestOf is what a recorded run had, in even parts on its nodes.
func requestOf(job *trace.Job) place.Request {
	asks := job.Asks
	return place.Request{
		MinNodes: asks.Nodes, MaxNodes: asks.Nodes, CPUsPerTask: max(asks.CPUsPerNode, 1), GPUsPerNode: asks.GPUsPerNode, Model: asks.Model,
		MemoryPerNode: max(asks.MemoryPerNode, 1),
	}
}

// partitions are those of a policy, on nodes ascending by name.
func partitions(policy *pb.Policy, nodes []place.Node) ([]sched.Partition, error) {
	if len(policy.GetPartitions()) > maxPartitions {
		return nil, fmt.Errorf("it has %d partitions, more than any cluster", len(policy.GetPartitions()))
	}
	var all []sched.Partition
	for _, p := range policy.GetPartitions() {
		names, err := spec.ParseHostList(p.GetNodes())
		if err != nil {
			return nil, fmt.Errorf("partition %s: nodes: %w", p.GetName(), err)
		}
		slices.Sort(names)
		whole := slices.Equal(names, []string{"ALL"})
		partition := sched.Partition{
			Name: p.GetName(), Up: p.GetUp(), MaxTimeS: cmp.Or(p.GetMaxTimeS(), sched.Unlimited), PriorityTier: p.GetPriorityTier(), RootAllowed: true,
			PriorityJobFactor: cmp.Or(p.GetPriorityJobFactor(), 1), QOS: -1,
		}
		for i := range nodes {
			if _, has := slices.BinarySearch(names, nodes[i].Name); has || whole {
				partition.Nodes = append(partition.Nodes, place.NodeIndex(i))
			}
		}
		all = append(all, partition)
	}
	slices.SortFunc(all, func(a, b sched.Partition) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// owners are those of the policy. An account is an owner's if it is the nearest above it
// that owns nodes.
func (r *Recorded) owners(policy *pb.Policy) ([]sim.Owner, error) {
	var all []sim.Owner
	nodes, recording := r.Cluster.Nodes, r.recording
	for _, o := range policy.GetOwners() {
		names, err := spec.ParseHostList(o.GetNodes())
		if err != nil {
			return nil, fmt.Errorf("owner %s: nodes: %w", o.GetAccount(), err)
		}
		owner := sim.Owner{Account: o.GetAccount()}
		slices.Sort(names)
		for i := range nodes {
			if _, has := slices.BinarySearch(names, nodes[i].Name); has {
				owner.Nodes = append(owner.Nodes, place.NodeIndex(i))
				owner.Processors += uint32(max(len(nodes[i].Devices), 1))
			}
		}
		if len(owner.Nodes) > 0 {
			all = append(all, owner)
		}
	}
	parents := map[string]string{}
	for _, account := range recording.GetAccounts() {
		parents[account.GetName()] = account.GetParent()
	}
	owning := func(account string) int {
		return slices.IndexFunc(all, func(o sim.Owner) bool { return o.Account == account })
	}
	for _, account := range recording.GetAccounts() {
		above := account.GetName()
		for depth := 0; depth < maxDepth && above != "" && owning(above) < 0; depth++ {
			above = parents[above]
		}
		if at := owning(above); at >= 0 && above != account.GetName() {
			all[at].Below = append(all[at].Below, account.GetName())
		}
	}
	return all, nil
}

// maxDepth bounds how many accounts are above one another.
const maxDepth = 64

// readRuns makes jobs of the runs.
func (r *Recorded) readRuns() {
	asks, last := map[trace.Ask]*trace.Ask{}, map[string][]int64{}
	for _, run := range r.recording.GetRuns() {
		ask := askOf(run)
		shared, known := asks[ask]
		if !known {
			shared = &ask
			asks[ask] = shared
		}
		job := jobOf(run, shared, last[run.GetUser()])
		job.Processors = r.processorsOf(shared)
		if run.GetEndS() != 0 {
			known := append(last[run.GetUser()], job.RunS)
			last[run.GetUser()] = known[max(len(known)-2, 0):]
		}
		for range min(max(run.GetCount(), 1), maxTasks) {
			r.Jobs = append(r.Jobs, job)
		}
		if len(r.Jobs) > trace.MaxJobs {
			break
		}
	}
	trace.Sort(r.Jobs)
}

// processorsOf is how many GPUs a job has, or on a cluster without any how many CPUs.
func (r *Recorded) processorsOf(ask *trace.Ask) uint32 {
	if slices.ContainsFunc(r.Cluster.Nodes, func(n place.Node) bool { return len(n.Devices) > 0 }) {
		return ask.Nodes * ask.GPUsPerNode
	}
	return ask.Nodes * ask.CPUsPerNode
}

// maxTasks bounds how many waiting tasks of an array are replayed.
const maxTasks = 10_000

func askOf(run *pb.RecordedRun) trace.Ask {
	nodes := max(run.GetNodes(), 1)
	each := func(amount uint32) uint32 { return uint32((uint64(amount) + uint64(nodes) - 1) / uint64(nodes)) }
	return trace.Ask{
		Partition: run.GetPartition(), Model: run.GetModel(), Nodes: nodes, CPUsPerNode: each(run.GetCpus()), GPUsPerNode: each(run.GetGpus()),
		MemoryPerNode: run.GetMemoryBytes(),
	}
}

func jobOf(run *pb.RecordedRun, ask *trace.Ask, last []int64) trace.Job {
	limitS := int64(run.GetLimitS())
	if run.GetLimitS() == sched.Unlimited || limitS == 0 {
		limitS = noLimitS
	}
	ranS := int64(run.GetRanS())
	switch {
	case run.GetStartS() == 0 && len(last) == 2:
		ranS = (last[0] + last[1]) / 2
	case run.GetStartS() == 0:
		ranS = limitS
	case run.GetEndS() == 0:
		ranS *= 2
	}
	ranS = max(ranS, 1)
	if run.GetEndS() == 0 {
		ranS = min(ranS, limitS)
	}
	return trace.Job{
		ID: run.GetJobId(), SubmitS: int64(run.GetEligibleS()), RunS: ranS, EstimateS: max(limitS, ranS),
		User: run.GetUser(), Account: run.GetAccount(), Asks: ask,
	}
}

// noLimitS is what a job without a time limit is planned for: a month.
const noLimitS = 30 * 24 * 3600
