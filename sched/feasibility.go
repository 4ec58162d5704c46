package sched

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// verdict is whether a request could run on an idle partition, and if not, why.
// It depends on the inventory only, never on what is free.
type verdict struct {
	code ReasonCode // ReasonNone = it could
	lack *Lack
}

func (v verdict) reason(partition int) Reason {
	return Reason{Code: v.code, Partition: int32(partition), Lack: v.lack}
}

// Feasible reports whether a job of this shape could ever run in one of its
// partitions, with every node that has ever registered up and idle. It is for
// refusing a job at submission; the reason is about its first partition. A
// partition in which no node has registered yet is given the benefit of the
// doubt. Time limits and holds do not count.
func Feasible(s Snapshot, shape Shape) (Reason, bool) {
	s.Nodes = place.Wire(s.Nodes, s.Switches)
	if shape.SwitchesWaitS > 0 {
		shape.Request.Switches = 0 // it will have waited long enough some time
	}
	j := newFeasibility(&s, Memo{})
	first := Reason{Code: ReasonPartitionConfig, Partition: -1}
	for choice, index := range shape.Partitions {
		if !j.known(index) {
			return Reason{}, true
		}
		v := j.decide(&s.Partitions[index].shaped(&shape).Request, index)
		if v.code == ReasonNone || v.code == ReasonReqNodeNotAvail {
			return Reason{}, true
		}
		if choice == 0 {
			first = v.reason(index)
		}
	}
	return first, false
}

// known reports whether any node of a partition has registered.
func (j *feasibility) known(partition int) bool {
	return slices.ContainsFunc(j.Partitions[partition].Nodes, func(n place.NodeIndex) bool {
		return !j.Nodes[n].CPUs.Empty()
	})
}

// feasibility gives verdicts, and remembers them for the next pass.
type feasibility struct {
	*Snapshot
	idle   *ideal   // with no job on them; nil = not needed yet
	healed *ideal   // and with every node up and every device healthy
	before verdicts // of the pass before
	given  verdicts
	ofPart verdicts // of own parts, whose numbers are this pass's
	key    []byte   // room for requestKey
}

// verdicts are verdicts by requestKey. Each has its own key, so that it goes from one list to
// another as it is.
type verdicts map[string]*keyed

type keyed struct {
	key     string
	verdict verdict
}

func newFeasibility(s *Snapshot, memo Memo) *feasibility {
	j := &feasibility{Snapshot: s, given: make(verdicts), ofPart: make(verdicts)}
	if memo.describes(s) {
		j.before = memo.verdicts
	}
	return j
}

// remembers gives a trial the verdict of the pass before, if there is one.
func (j *feasibility) remembers(t *trial, shape *Shape, index int) bool {
	if t.judged || len(j.before) == 0 || j.Partitions[index].isPart() {
		return t.judged
	}
	j.key = requestKey(j.key[:0], index, &shape.Request)
	if was := j.before[string(j.key)]; was != nil {
		t.verdict, t.judged = was.verdict, true
		j.given[was.key] = was
	}
	return t.judged
}

// decideOn gives a trial its verdict.
func (j *feasibility) decideOn(t *trial, shape *Shape, index int) {
	if j.remembers(t, shape, index) {
		return
	}
	t.judged, t.verdict = true, j.verdictOf(shape, index)
}

// verdictOf is the verdict on a shape in a partition.
func (j *feasibility) verdictOf(shape *Shape, index int) verdict {
	j.key = requestKey(j.key[:0], index, &shape.Request)
	given, before := j.given, j.before
	if j.Partitions[index].isPart() {
		given, before = j.ofPart, nil
	}
	v := given[string(j.key)] // shapes may differ in their time limit only
	if v == nil {
		if v = before[string(j.key)]; v == nil {
			v = &keyed{string(j.key), j.decide(&shape.Request, index)}
		}
		given[v.key] = v
	}
	return v.verdict
}

func (j *feasibility) decide(r *place.Request, index int) verdict {
	nodes := j.Partitions[index].Nodes
	if j.idle == nil {
		j.idle = newIdeal(j.Snapshot, false)
	}
	if j.idle.fits(r, index, nodes) {
		return verdict{}
	}
	if j.healed == nil {
		j.healed = newIdeal(j.Snapshot, true)
	}
	if !j.healed.fits(r, index, nodes) {
		_, short, _ := place.Fit(j.healed.nodes, nodes, *r)
		switch {
		case short.What == place.Model, short.What == place.Host,
			short.What == place.Feature && short.Among == place.AllNodes:
			return verdict{code: ReasonBadConstraints, lack: &Lack{Short: short}}
		}
		return verdict{code: ReasonPartitionConfig, lack: &Lack{Short: short}}
	}
	return verdict{code: ReasonReqNodeNotAvail, lack: &Lack{Unavailable: j.missing(r, nodes)}}
}

// ideal is the nodes as they would be with no job on them.
type ideal struct {
	nodes   []place.Node
	kinds   *place.Kinds
	indices []*place.Index // by partition; nil = not needed yet
}

func newIdeal(s *Snapshot, healed bool) *ideal {
	i := &ideal{nodes: make([]place.Node, len(s.Nodes)), indices: make([]*place.Index, len(s.Partitions))}
	for at := range s.Nodes {
		i.nodes[at] = place.Idle(s.Nodes[at], healed)
	}
	i.kinds = place.NewKinds(i.nodes)
	return i
}

// fits reports whether a request fits on the nodes of a partition.
func (i *ideal) fits(r *place.Request, index int, nodes []place.NodeIndex) bool {
	x := i.indices[index]
	if x == nil {
		x = i.kinds.NewIndex(nodes)
		i.indices[index] = x
	}
	if x.Narrows(r) {
		nodes, _ = x.Narrow(r, nil)
	}
	_, fits := place.Find(i.nodes, nodes, *r)
	return fits
}

// missing is the nodes that the request could use but for a fault of theirs or
// of their devices; if the request names nodes, only those.
func (j *feasibility) missing(r *place.Request, nodes []place.NodeIndex) []place.NodeIndex {
	var missing, named []place.NodeIndex
	for _, index := range nodes {
		n := &j.Nodes[index]
		broken := r.WantsGPUs() && slices.ContainsFunc(n.Devices, func(d place.Device) bool { return !d.Healthy })
		if n.Available && !broken || !place.Suits(j.healed.nodes[index], *r) {
			continue
		}
		missing = append(missing, index)
		if _, is := slices.BinarySearch(r.RequiredNodes, n.Name); is {
			named = append(named, index)
		}
	}
	if len(named) > 0 {
		return named
	}
	return missing
}

// requestKey appends what tells requests apart, by all that a verdict may depend on: that is
// everything but whose job it is, since there are no others on idle nodes.
// Partitions are meant by index, which holds as long as the memo describes the
// snapshot.
func requestKey(key []byte, partition int, r *place.Request) []byte {
	for _, number := range [...]uint64{
		uint64(partition), uint64(r.MinNodes), uint64(r.MaxNodes), uint64(r.Tasks), uint64(r.TasksPerNode),
		uint64(r.CPUsPerTask), uint64(r.CPUsPerGPU), r.MemoryPerNode, r.MemoryPerCPU, r.MemoryPerGPU, r.TmpPerNode,
		uint64(r.GPUsPerNode), uint64(r.GPUsPerJob), uint64(r.GPUsPerTask), uint64(r.TasksPerGPU), uint64(r.Switches),
	} {
		key = binary.AppendUvarint(key, number)
	}
	for _, flag := range [...]bool{r.Exclusive, r.Contiguous, r.MostNodes, r.EvenTasks, r.AmongNodes != nil} {
		key = strconv.AppendBool(key, flag)
	}
	key = appendText(key, r.Model)
	for _, list := range [...][]string{r.RequiredNodes, r.ExcludedNodes, r.AmongNodes, r.GuestOn} {
		key = binary.AppendUvarint(key, uint64(len(list)))
		for _, name := range list {
			key = appendText(key, name)
		}
	}
	if !r.Constraint.IsZero() {
		key = fmt.Appendf(key, "%#v", r.Constraint)
	}
	return key
}

// appendText appends a text of which the length is told, so that it ends nowhere else.
func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}
