package state

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file gives each job on several nodes the addresses of its own network, from a range
// of the site's. A run keeps those that it was started with, and so do its images and what
// resumes from them: the range may change meanwhile. Networks of two jobs never meet, so it
// does no harm that two may have the same addresses.
//
// A node with routes into the range takes no part: the job could not tell its own nodes
// from what the node reaches there.

// networkOf is the network of a job on so many nodes.
func networkOf(site spec.GangRange, number uint32, nodes int) policy.GangRange {
	v4, v6 := site.V4, netip.PrefixFrom(site.V6.Addr(), jobBits6)
	hosts := bits.Len(uint(nodes + 1)) // with the first and the last, which nobody has
	if free := v4.Addr().BitLen() - v4.Bits(); hosts < free {
		v4 = netip.PrefixFrom(v4.Addr(), v4.Addr().BitLen()-hosts)
		base := v4.Addr().As4()
		for i := range base {
			base[i] |= byte(number & (1<<(free-hosts) - 1) << hosts >> (8 * (3 - i)))
		}
		v4 = netip.PrefixFrom(netip.AddrFrom4(base), v4.Bits())
	}
	base := v6.Addr().As16()
	for i := range 4 {
		base[8+i] |= byte(number >> (8 * (3 - i)))
	}
	return policy.GangRangeOf(spec.GangRange{V4: v4, V6: netip.PrefixFrom(netip.AddrFrom16(base), jobBits6)})
}

// jobBits6 are those that all IPv6 addresses of a job have alike: the site's, and its number.
const jobBits6 = 96

// mostBetween is how many nodes a network in a range has addresses for.
func mostBetween(site spec.GangRange) int {
	return 1<<(site.V4.Addr().BitLen()-site.V4.Bits()) - 2
}

// between are the addresses of the network between the nodes of the present run; nil = it
// has none.
func (j *Job) between() *policy.GangRange {
	switch {
	case !j.IsGang():
		return nil
	case j.Run.Restore != nil:
		return j.Run.Restore.Between
	}
	return j.Run.Between
}

// HasNetwork reports whether the present run has a network between its nodes.
func (j *Job) HasNetwork() bool { return j.between() != nil }

// isPrivate reports whether a job has a network of its own in a run that starts. One that
// only copies files has none.
func (t *tables) isPrivate(job *Job, run *Run) bool {
	if job.stages() {
		return false
	}
	if job.Spec.Network == pb.Network_NETWORK_AUTO {
		return t.networkFor(job, run) == pb.Network_NETWORK_PRIVATE
	}
	return job.Spec.Network == pb.Network_NETWORK_PRIVATE
}

// giveBetween gives a run that starts its addresses.
func (s *State) giveBetween(job *Job, run *Run) {
	if len(run.Allocs) < 2 || run.Restore != nil || !s.isPrivate(job, run) {
		return
	}
	number := job.ID
	if job.TaskCount() > 1 {
		number = s.nextJob // the task that is split off
	}
	between := networkOf(s.policy.GangRange.Prefixes(), number, len(run.Allocs))
	run.Between = &between
}

// checkBetween refuses a run with a network between nodes of which one takes no part.
func (s *State) checkBetween(job *Job, run *Run) error {
	if len(run.Allocs) < 2 || !s.isPrivate(job, run) {
		return nil
	}
	within := s.policy.GangRange.Prefixes()
	if most := mostBetween(within); run.Restore == nil && len(run.Allocs) > most {
		return fmt.Errorf("job %d gets %d nodes, and gang_range has addresses for %d", job.ID, len(run.Allocs), most)
	}
	if run.Restore != nil && run.Restore.Between != nil {
		within = run.Restore.Between.Prefixes()
	}
	for i := range run.Allocs {
		node, _ := s.nodes.Get(run.Allocs[i].Node)
		if why := node.crossed(within); why != "" {
			return fmt.Errorf("node %s %s", node.Name, why)
		}
	}
	return nil
}

// crossed says why a node takes no part in networks from a range, as in "node n1 …"; "" =
// it does.
func (n *Node) crossed(within spec.GangRange) string {
	if n.Inventory == nil {
		return ""
	}
	route, into, leads := within.RouteInto(n.Inventory.Routes)
	if !leads {
		return ""
	}
	key := "gang_range"
	if into.Addr().Is6() {
		key = "gang_range6"
	}
	return fmt.Sprintf("has a route to %s, and %s is for the networks between the nodes of jobs: let an administrator set another %s in cluster.toml, use other nodes, or the node's network (--network=host)", route, into, key)
}

// mayBeBetween reports whether a waiting job may have a network between its nodes in its
// next run, which does not resume from an image.
func (j *Job) mayBeBetween() bool {
	return len(j.Images()) == 0 && !j.needsHost() && takesSeveral(&j.Spec.shape.Request)
}

// takesSeveral reports whether a job may get more than one node.
func takesSeveral(r *place.Request) bool {
	switch {
	case r.MaxNodes > 0:
		return r.MaxNodes > 1
	case r.MinNodes > 0:
		return r.MinNodes > 1
	}
	return r.Tasks > 1 || r.GPUsPerJob > 1 || len(r.RequiredNodes) > 1
}

// noteCrossed keeps the index of the nodes with routes into the site's range.
func (s *State) noteCrossed(node *Node, within spec.GangRange) {
	if node.crossed(within) != "" {
		s.crossed.Set(node.Name, struct{}{})
	} else {
		s.crossed.Delete(node.Name)
	}
}

// betweenRule keeps jobs that may have such a network from nodes that take no part. nil =
// all nodes do.
func (t *tables) betweenRule() nodeRule {
	if t.crossed.Len() == 0 {
		return nil
	}
	return newNodeRule((*Job).mayBeBetween, func(job *Job) (out nodesFor) {
		if job.mayBeBetween() {
			out.never = t.crossed.Keys()
		}
		return out
	})
}

// tellCrossed says of a waiting job which nodes it does not get for that.
func (t *tables) tellCrossed(message *pb.Job, job *Job) {
	if t.crossed.Len() == 0 || !job.mayBeBetween() {
		return
	}
	text, others := "", 0
	t.crossed.Scan(func(name string, _ struct{}) bool {
		if !t.inPartitions(job, name) {
			return true
		}
		if others++; others == 1 {
			node, _ := t.nodes.Get(name)
			text = "node " + name + " " + node.crossed(t.policy.GangRange.Prefixes())
		}
		return true
	})
	if others > 1 {
		text = joinSentences(text, fmt.Sprintf("%d more nodes likewise", others-1))
	}
	if text != "" {
		addKept(message, job, text)
	}
}

// routesOf reads the routes that a node has told; what is none is left out.
func routesOf(texts []string) (routes []netip.Prefix) {
	for _, text := range texts[:min(len(texts), spec.MaxRoutes)] {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			routes = append(routes, prefix.Masked())
		}
	}
	return slices.Clip(routes)
}

func routesText(routes []netip.Prefix) (texts []string) {
	for _, r := range routes {
		texts = append(texts, r.String())
	}
	return texts
}
