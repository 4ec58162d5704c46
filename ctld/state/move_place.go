package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file finds room for the successor of a job that moves, in addition to
// what the original holds. It is done here and not by a pass of the scheduler:
// the user who asks for a move wants to hear at once whether there is room, and
// every peer derives the same answer from the same state. sched/place still
// decides what fits where.

// successor finds room for a run that resumes a job elsewhere, or says why
// there is none. image is what it resumes from, or what an image of the run
// would say.
func (s *State) successor(job *Job, move *Move, image *Image) (*Run, string) {
	if s.awaited > 0 {
		return nil, fmt.Sprintf("after a restore %d nodes have not spoken yet", s.awaited)
	}
	why := ""
	for _, name := range s.movePartitions(job) {
		partition, err := s.checkStartPartition(job, name)
		if err != nil {
			why = joinSentences(why, err.Error())
			continue
		}
		candidates, not := s.moveCandidates(job, partition, move, image)
		run, short := s.fitMove(job, partition, candidates, image)
		if run != nil {
			return run, ""
		}
		why = joinSentences(why, joinSentences(not, short))
	}
	return nil, bounds.Clip(why, bounds.MaxTextBytes)
}

// movePartitions are those in which a job may continue, that of its run first.
func (s *State) movePartitions(job *Job) []string {
	names := []string{job.Run.Partition}
	for _, name := range job.Spec.Partitions {
		if name != job.Run.Partition {
			names = append(names, name)
		}
	}
	return names
}

// moveCandidates are the nodes of a partition that could take an allocation of
// a job that moves, ascending by name, each looked at alone; and why others
// could not.
func (s *State) moveCandidates(job *Job, partition *policy.Partition, move *Move, image *Image) (candidates []*Node, not string) {
	var others int
	for node := range s.Nodes() {
		if !partition.Has(node.Name) || len(move.To) > 0 && !slices.Contains(move.To, node.Name) || slices.Contains(job.Run.nodes(), node.Name) {
			continue
		}
		alloc := &image.Allocs[0]
		if at := slices.Index(move.To, node.Name); at >= 0 {
			alloc = &image.Allocs[at]
		}
		why := s.cannotTakeAlloc(job, node, image, alloc)
		if why == "" && len(move.To) == 0 {
			why = s.soonTaken(job, node, s.timeMS)
		}
		if err := checkSharing(job, partition, node); why == "" && err != nil {
			why = ": " + err.Error()
		}
		switch {
		case move.tried(node.Name), why != "":
		case job.holdsBeside(node.Name):
			why = "still cleans up after an earlier run of it"
		default:
			candidates = append(candidates, node)
			continue
		}
		if others++; others <= maxReasonsNamed && why != "" {
			not = joinSentences(not, "node "+node.Name+" "+why)
		}
	}
	if others > maxReasonsNamed {
		not = joinSentences(not, fmt.Sprintf("%d more", others-maxReasonsNamed))
	}
	return candidates, not
}

// maxReasonsNamed is the number of nodes for which the reason is named.
const maxReasonsNamed = 8

// tried reports whether a node is one of those that were tried.
func (m *Move) tried(node string) bool {
	return slices.ContainsFunc(m.Tries, func(t MoveTry) bool { return slices.Contains(t.Nodes, node) })
}

// fitMove places a successor on some of the candidates, or says what is
// lacking.
func (s *State) fitMove(job *Job, partition *policy.Partition, candidates []*Node, image *Image) (*Run, string) {
	if len(candidates) < len(image.Allocs) {
		if len(candidates) == 0 {
			return nil, ""
		}
		return nil, fmt.Sprintf("only %d of %d nodes could take an allocation of it", len(candidates), len(image.Allocs))
	}
	nodes, indices, names := make([]place.Node, len(candidates)), make([]place.NodeIndex, len(candidates)), make([]string, len(candidates))
	request := image.request(job.Spec.shape.Request)
	for i, node := range candidates {
		nodes[i], indices[i], names[i] = schedNode(node), place.NodeIndex(i), node.Name
		nodes[i].Guests = s.guestRoom(node)
		if (node.keepsSome() || node.Lending.binds()) && !s.OwnersJob(job, node.Name) {
			request.GuestOn = append(request.GuestOn, node.Name)
		}
	}
	request.Exclusive = request.Exclusive || partition.Exclusive == policy.ExclusiveNode
	request.ExclusiveUser = request.ExclusiveUser || partition.Exclusive == policy.ExclusiveUser
	request.User = job.Owner().UID
	placement, _, fits := place.Fit(nodes, indices, request)
	if !fits {
		return nil, fmt.Sprintf("node %s %s not free what the job needs: CPUs, memory, GPUs or a feature", words.FormatHostList(names), has(len(names)))
	}
	run := &Run{
		Partition: partition.Name, Priority: job.Run.Priority, StartMS: s.timeMS, Sharing: partition.Exclusive, Moved: true,
		Fence: partition.LeaseAction == policy.LeaseFence && job.Spec.Requeue,
	}
	for i := range placement.Allocs {
		order := allocOrder(&placement.Allocs[i], nodes)
		alloc, err := s.checkAlloc(job, partition, &order)
		if err != nil {
			return nil, err.Error()
		}
		run.Allocs = append(run.Allocs, alloc)
	}
	if err := run.fitsImage(job, image); err != nil {
		return nil, err.Error()
	}
	run.Billing = billed(s.policy, partition, run.amounts(job.Spec.Licenses))
	return run, ""
}

func has(nodes int) string {
	if nodes == 1 {
		return "has"
	}
	return "have"
}

// placed is a job with a successor that has room.
func (s *State) placed(job *Job, run *Run) *Job {
	next := *job
	present := *job.Run
	next.Run = &present
	present.LastEpoch = max(job.Epoch, present.LastEpoch, s.epochFloor) + 1
	present.Beside = append(slices.Clone(present.Beside), Beside{Epoch: present.LastEpoch, Run: run})
	return &next
}
