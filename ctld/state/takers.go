package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file finds nodes for a job that resumes from an image, as far as the records
// tell. All parts of an image had the same on each node (Run.uneven), so a node that
// could take one could take each of them.

// takers are the nodes that could each take a part of an image if they were idle,
// ascending by name, without those that are left out; and why the first one could not.
// Of a job on one node the first is all that is looked for.
func (t *tables) takers(job *Job, image *Image, leftOut func(name string) bool) (names []string, why string) {
	request := image.request(job.Spec.shape.Request)
	for node := range t.Nodes() {
		if !t.inPartitions(job, node.Name) || leftOut(node.Name) {
			continue
		}
		not := t.cannotTakeAlloc(job, node, image, &image.Allocs[0])
		if not == "" && !place.Suits(place.Idle(schedNode(node), false), request) {
			not = "lacks what the job requests: CPUs, memory, features, or the node name that it requires"
		}
		switch {
		case not == "" && len(image.Allocs) == 1:
			return []string{node.Name}, ""
		case not == "":
			names = append(names, node.Name)
		case why == "":
			why = fmt.Sprintf("node %s %s", node.Name, not)
		}
	}
	return names, why
}

// idleSet is a set of some nodes, which are ascending by name, that could together take
// an image if they were idle: in the order of its parts; nil = there is none.
func (t *tables) idleSet(job *Job, image *Image, among []string) []string {
	return t.fitSet(job, image, among, func(node *Node) place.Node { return place.Idle(schedNode(node), false) })
}

// freeSet is a set that could do so now.
func (t *tables) freeSet(job *Job, image *Image, among []string) []string {
	return t.fitSet(job, image, among, func(node *Node) place.Node {
		now := schedNode(node)
		now.Guests = t.guestRoom(node)
		return now
	})
}

func (t *tables) fitSet(job *Job, image *Image, among []string, view func(*Node) place.Node) []string {
	if len(among) < len(image.Allocs) {
		return nil
	}
	nodes, indices := make([]place.Node, len(among)), make([]place.NodeIndex, len(among))
	for i, name := range among {
		node, _ := t.nodes.Get(name)
		nodes[i], indices[i] = view(node), place.NodeIndex(i)
	}
	placement, _, fits := place.Fit(nodes, indices, image.request(job.Spec.shape.Request))
	if !fits {
		return nil
	}
	set := make([]string, len(placement.Allocs))
	for i := range placement.Allocs {
		set[i] = among[placement.Allocs[i].Node]
	}
	return set
}

// gangRestoreSets are those of a job on several nodes: where it was sent, its own nodes,
// and if these could not take it, the nodes that have room for it now, or else those that
// could have it. Only that one set of other nodes is named, because each of its nodes is
// asked about its part. refused reports what a node answered about a part: one that refused
// is in no other set, nor are nodes on which a restore failed, while there are others.
func (v *View) gangRestoreSets(job *Job, image *Image, refused func(part int, node string) bool) (sets, failed [][]string) {
	own, to := image.Nodes(), job.Saved.To
	if len(to) == len(own) && !slices.Equal(to, own) && v.cannotTake(job, to, image) == "" {
		sets = append(sets, to)
	}
	fails := func(name string) bool { return job.Saved.failedOn(image.Number, name) || job.failedOn(name) }
	says := func(set []string) bool {
		for part, name := range set {
			if refused(part, name) {
				return false
			}
		}
		return true
	}
	switch could := v.cannotTake(job, own, image) == ""; {
	case could && slices.ContainsFunc(own, fails):
		failed = append(failed, own)
	case could:
		sets = append(sets, own)
		if says(own) && job.Saved.From == "" { // or it was moved away from there
			return sets, nil
		}
	}
	refuses := func(name string) bool {
		return slices.ContainsFunc(image.parts(), func(part int) bool { return refused(part, name) })
	}
	if other := v.otherSet(job, image, func(name string) bool { return fails(name) || refuses(name) }); other != nil {
		return append(sets, other), failed
	}
	if other := v.otherSet(job, image, refuses); other != nil && !slices.Equal(other, own) {
		failed = append(failed, other)
	}
	return sets, failed
}

// otherSet is where a job on several nodes would resume that cannot on its own.
func (v *View) otherSet(job *Job, image *Image, leftOut func(name string) bool) []string {
	able, _ := v.takers(job, image, leftOut)
	if set := v.freeSet(job, image, able); set != nil {
		return set
	}
	return v.idleSet(job, image, able)
}

// parts are the numbers of the parts of an image.
func (i *Image) parts() []int {
	numbers := make([]int, len(i.Allocs))
	for n := range numbers {
		numbers[n] = n
	}
	return numbers
}
