package sim

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// Owner is an account with nodes of its own.
type Owner struct {
	Account string
	Nodes   []place.NodeIndex // ascending
	// Processors is how many they have.
	Processors uint32
	// Below are the accounts below it, whose jobs are its own too.
	Below []string
}

// Reclaim is that the owner of a node takes all of it back for a time. Only the owner's
// jobs start there then.
type Reclaim struct {
	Node       place.NodeIndex
	FromS, ToS int64
}

// owners is what a replay knows of owners.
type owners struct {
	byAccount map[string]int32 // as sched.Job.Owner has it
	ofNode    []int32          // likewise; 0 = nobody
	reclaimed []int            // by node: how many reclaims hold it
	excluded  map[int32][]string
	stopped   int             // jobs
	savedS    map[int32]int64 // how much of a job is in its image
}

func (r *replay) enterOwners() {
	o := &r.owners
	o.byAccount, o.savedS, o.excluded = map[string]int32{}, map[int32]int64{}, map[int32][]string{}
	o.ofNode, o.reclaimed = make([]int32, len(r.cluster.Nodes)), make([]int, len(r.cluster.Nodes))
	if r.policy.Lending.Guests == GuestsNone {
		return
	}
	for i, owner := range r.cluster.Owners {
		for _, account := range append([]string{owner.Account}, owner.Below...) {
			o.byAccount[account] = int32(i + 1)
		}
		r.snapshot.Owners = append(r.snapshot.Owners, owner.Nodes)
		for _, node := range owner.Nodes {
			o.ofNode[node] = int32(i + 1)
		}
	}
	for i, reclaim := range r.cluster.Reclaims {
		r.events.push(event{atS: reclaim.FromS, job: int32(i), kind: reclaimBegins})
		r.events.push(event{atS: reclaim.ToS, job: int32(i), kind: reclaimEnds})
	}
}

// partitionsOfOwners has each account run on its own nodes.
func (r *replay) partitionsOfOwners() []sched.Partition {
	var partitions []sched.Partition
	for _, owner := range r.cluster.Owners {
		partitions = append(partitions, partitionOf(owner.Account, owner.Nodes))
	}
	slices.SortFunc(partitions, func(a, b sched.Partition) int { return strings.Compare(a.Name, b.Name) })
	return partitions
}

func (r *replay) owner(job int32) int32 { return r.owners.byAccount[r.result.Jobs[job].Account] }

func (r *replay) isReclaimed(node place.NodeIndex) bool { return r.owners.reclaimed[node] > 0 }

// isGuest reports whether a running job is on a node of another owner.
func (r *replay) isGuest(job int32) bool {
	own := r.owner(job)
	return slices.ContainsFunc(r.runs[job].placement.Allocs, func(alloc place.Alloc) bool {
		of := r.owners.ofNode[alloc.Node]
		return of != 0 && of != own
	})
}

// guestNodes are the nodes of an owner on which a job is a guest, ascending.
func (r *replay) guestNodes(job, owner int32) []place.NodeIndex {
	var nodes []place.NodeIndex
	for _, alloc := range r.runs[job].placement.Allocs {
		if r.owners.ofNode[alloc.Node] == owner && r.owner(job) != owner {
			nodes = append(nodes, alloc.Node)
		}
	}
	return nodes
}

// reclaim begins or ends one.
func (r *replay) reclaim(index int, begins bool) {
	node := r.cluster.Reclaims[index].Node
	clear(r.owners.excluded)
	if !begins {
		r.owners.reclaimed[node]--
		return
	}
	r.owners.reclaimed[node]++
	for _, job := range slices.Clone(r.running) {
		nodes := r.guestNodes(job, r.owners.ofNode[node])
		if _, there := slices.BinarySearch(nodes, node); !there {
			continue
		}
		if r.policy.Lending.Guests == GuestsKill {
			r.kill(job)
		} else {
			r.stop(job, []place.NodeIndex{node})
		}
	}
}

// excludedFor names the reclaimed nodes of others than an owner, ascending.
func (r *replay) excludedFor(owner int32) []string {
	names, known := r.owners.excluded[owner]
	if !known {
		for node, reclaims := range r.owners.reclaimed {
			if reclaims > 0 && r.owners.ofNode[node] != owner {
				names = append(names, r.cluster.Nodes[node].Name)
			}
		}
		r.owners.excluded[owner] = names
	}
	return names
}

// Departures makes reclaims of what is known of nodes that left a cluster and came
// back: each departure is that the next node of the cluster, counted through it in
// strides, is taken back by its owner, and each arrival gives back the one that was
// taken first. It repeats each day, or as many days as the record has, from one time to
// another, and at the end of the record all are given back. Nodes without an owner are
// left out.
func Departures(moves []trace.Move, cluster *Cluster, fromS, toS int64) []Reclaim {
	if len(moves) == 0 {
		return nil
	}
	var owned []place.NodeIndex
	for _, owner := range cluster.Owners {
		owned = append(owned, owner.Nodes...)
	}
	slices.Sort(owned)
	lastS := moves[len(moves)-1].AtS + 1
	everyS := (lastS + dayS - 1) / dayS * dayS
	var reclaims []Reclaim
	next := 0
	for baseS := fromS; baseS < toS && len(owned) > 0 && len(reclaims) < maxReclaims; baseS += everyS {
		var taken []place.NodeIndex
		var since []int64
		give := func(count int, atS int64) {
			for i := range count {
				reclaims = append(reclaims, Reclaim{taken[i], since[i], atS})
			}
			taken, since = taken[count:], since[count:]
		}
		for _, move := range moves {
			switch {
			case move.Arrives && len(taken) > 0:
				give(1, baseS+move.AtS)
			case !move.Arrives && len(taken) < len(owned):
				for slices.Contains(taken, owned[next%len(owned)]) {
					next++
				}
				taken, since = append(taken, owned[next%len(owned)]), append(since, baseS+move.AtS)
				next += stride
			}
		}
		give(len(taken), baseS+lastS)
	}
	slices.SortFunc(reclaims, func(a, b Reclaim) int { return cmp.Or(cmp.Compare(a.FromS, b.FromS), cmp.Compare(a.Node, b.Node)) })
	return reclaims
}

const (
	dayS = 24 * 3600
	// stride leads from owner to owner, and comes by all nodes: it is prime.
	stride = 10_007
	// maxReclaims bounds what a short record gives over a long trace.
	maxReclaims = 1_000_000
)

// Owned is the jobs that could run if each account had only its own nodes, and how many
// could not: their account has none, or too few.
func Owned(jobs []trace.Job, cluster *Cluster) (own []trace.Job, cut int) {
	has := map[string]uint32{}
	for _, owner := range cluster.Owners {
		has[owner.Account] = owner.Processors
	}
	own = make([]trace.Job, 0, len(jobs))
	for i := range jobs {
		if jobs[i].Processors <= has[jobs[i].Account] {
			own = append(own, jobs[i])
		}
	}
	return own, len(jobs) - len(own)
}
