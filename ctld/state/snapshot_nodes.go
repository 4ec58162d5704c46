package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched"
)

// This file gives the scheduler the nodes that waiting jobs may have, and when. What that
// depends on is a rule: reclaims, terms, how soon a guest can leave, reservations, habits.
// Jobs that are alike to a rule are judged once, and jobs with the same nodes share a
// shape.

// nodesFor is which nodes a job does not get, ascending by name: those that it never gets,
// as far as is known, those of which it gets what guests do, and those that it does not
// get at some times.
type nodesFor struct {
	never, guest []string
	closed       []closedNode
}

// closedNode is a sched.Closed by name.
type closedNode struct {
	node string
	sched.Closed
}

// nodeRule says which nodes a job does not get; nil = it gets all. A nil nodeRule keeps
// none from any.
type nodeRule func(*Job) *nodesFor

// newNodeRule is a rule by which jobs of one key are alike.
func newNodeRule[K comparable](key func(*Job) K, judge func(*Job) nodesFor) nodeRule {
	known, alike := map[K]*nodesFor{}, map[string]*nodesFor{}
	return func(job *Job) *nodesFor {
		of := key(job)
		nodes, is := known[of]
		if is {
			return nodes
		}
		judged := judge(job)
		if text := fmt.Sprint(judged); text != fmt.Sprint(nodesFor{}) {
			if nodes, is = alike[text]; !is {
				nodes, alike[text] = &judged, &judged
			}
		}
		known[of] = nodes
		return nodes
	}
}

// nodeRules is how many rules there are.
const nodeRules = 6

// schedNodesFor gives jobs that do not get all nodes shapes of their own.
type schedNodesFor struct {
	view   *View
	rules  [nodeRules]nodeRule
	ruled  bool // there is a rule
	shapes map[shapeFor]int
	pulls  func(*Job) (waits bool, without []string) // as in NodeReports
	staging
}

// shapeFor is the shape that was asked for, and what the rules say.
type shapeFor struct {
	shape   int
	rules   [nodeRules]*nodesFor
	avoided string
	copies  uint32 // nodes on which it only copies files; 0 = it is the job's own run
	among   string // the nodes that have its files; "" = any may be
}

func (v *View) schedNodesFor(nowMS int64, told NodeReports) *schedNodesFor {
	all := &schedNodesFor{
		view:   v,
		rules:  [nodeRules]nodeRule{v.reclaimRule(nowMS, told), v.termsRule(), v.boundsRule(), v.reservationRule(nowMS, told), v.habitRule(nowMS), v.betweenRule()},
		shapes: map[shapeFor]int{}, pulls: told.Pulls, staging: staging{view: v},
	}
	all.ruled = slices.ContainsFunc(all.rules[:], func(rule nodeRule) bool { return rule != nil })
	return all
}

// judges reports whether a job may have to do without some nodes.
func (a *schedNodesFor) judges(job *Job) bool {
	return a.ruled || job.Avoided != nil || job.Staged != nil || job.MayPullFirst()
}

// fill has a job of the snapshot placed where it may be. A job that resumes from an image
// gets the nodes that said they can restore it.
func (a *schedNodesFor) fill(snapshot *sched.Snapshot, index *schedIndex, job *Job, out *sched.Job) {
	key, all := shapeFor{shape: out.Shape}, true
	for i, rule := range a.rules {
		if rule != nil {
			key.rules[i] = rule(job)
			all = all && key.rules[i] == nil
		}
	}
	var avoided []string
	if job.Avoided != nil && out.Image == 0 {
		avoided = a.view.avoiding(job)
	}
	if a.pulls != nil && job.MayPullFirst() && out.Image == 0 {
		waits, without := a.pulls(job)
		out.Pulls, avoided = waits, union(avoided, without)
	}
	if job.Staged != nil {
		avoided = union(avoided, a.stagedAway(job))
	}
	if len(avoided) > 0 {
		key.avoided = fmt.Sprint(avoided)
	}
	among, copies := a.stagedAt(job)
	key.copies, key.among = copies, strings.Join(among, ",")
	if all && len(avoided) == 0 && copies == 0 && among == nil {
		return
	}
	at, known := a.shapes[key]
	if !known {
		at = len(snapshot.Shapes)
		shape := shapeWithin(snapshot.Shapes[out.Shape], &key, avoided, index)
		if copies > 1 && among == nil {
			shape.Request.AmongNodes = a.gangNodes(job.Spec.Partitions, shape.Request)
		} else if among != nil {
			shape.Request.AmongNodes = among
		}
		if copies > 0 {
			shape.Request = stagingRequest(&shape.Request, copies)
		}
		snapshot.Shapes = append(snapshot.Shapes, shape)
		a.shapes[key] = at
	}
	out.Shape = at
}

// shapeWithin is a shape with what the rules say.
func shapeWithin(shape sched.Shape, key *shapeFor, never []string, index *schedIndex) sched.Shape {
	var guest []string
	for _, nodes := range key.rules {
		if nodes == nil {
			continue
		}
		never, guest = union(never, nodes.never), union(guest, nodes.guest)
		for _, c := range nodes.closed {
			c.Node = index.nodes[c.node]
			shape.Closed = append(shape.Closed, c.Closed)
		}
	}
	slices.SortStableFunc(shape.Closed, func(a, b sched.Closed) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.FromMS, b.FromMS))
	})
	shape.Request.ExcludedNodes = union(shape.Request.ExcludedNodes, never)
	shape.Request.GuestOn = guest
	return shape
}

// closedUntil closes a node to starts until a time; 0 is for ever, and is told as never.
func (n *nodesFor) closedUntil(node string, untilMS int64, why sched.ClosedBy) {
	if untilMS == 0 {
		n.never = append(n.never, node)
		return
	}
	n.close(node, math.MinInt64, untilMS, true, why)
}

func (n *nodesFor) close(node string, fromMS, toMS int64, starts bool, why sched.ClosedBy) {
	n.closed = append(n.closed, closedNode{node, sched.Closed{FromMS: fromMS, ToMS: toMS, Starts: starts, Why: why}})
}
