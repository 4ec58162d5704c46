package api

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/why"
)

// This file has the changes that are tried for a waiting job. Each is made as an update
// would make it, on a copy of the state: what an update would refuse is not advised.

// maxOfKind bounds how many partitions, models, QOS and accounts are tried, of each.
const maxOfKind = 4

// question is what could be changed about the job.
func (w *wait) question() why.Job {
	asked := w.job.Spec
	q := why.Job{ID: sched.JobID(w.job.ID), TimeLimitS: asked.TimeLimitS, Nodes: asked.MinNodes}
	for _, single := range []struct {
		kind    why.Kind
		applies bool
	}{
		{why.Release, w.job.Held != sched.NotHeld},
		{why.BeginNow, w.job.BeginMS > w.snapshot.NowMS},
		{why.Unreserved, len(asked.Reservations) > 0},
		{why.AnyNode, asked.NodeList != ""},
		{why.AnyFeature, asked.Constraint != ""},
		{why.Unlicensed, len(asked.Licenses) > 0},
		{why.Independent, !w.job.Dependencies.IsZero()},
		{why.Savable, w.job.NeverSaved() && w.fillsHoles()},
	} {
		if single.applies {
			q.Single = append(q.Single, why.Change{Kind: single.kind})
		}
	}
	q.Single = append(q.Single, named(why.ToPartition, w.partitions())...)
	if gpus := asked.GPUs; len(gpus) == 1 {
		if gpus[0].Scope != pb.GpuScope_GPU_SCOPE_TASK { // gcontrol has no word for it
			q.GPUs = gpus[0].Count
			q.Single = append(q.Single, named(why.ToModel, w.models(gpus[0].Model))...)
		}
	}
	q.Single = append(q.Single, named(why.ToQOS, w.qos())...)
	q.Single = append(q.Single, named(why.ToAccount, w.accounts())...)
	return q
}

func named(kind why.Kind, names []string) []why.Change {
	var changes []why.Change
	for _, name := range names[:min(len(names), maxOfKind)] {
		changes = append(changes, why.Change{Kind: kind, Name: name})
	}
	return changes
}

// fillsHoles reports whether jobs that can be saved start in holes in a partition of the job.
func (w *wait) fillsHoles() bool {
	return slices.ContainsFunc(w.snapshot.Partitions, func(p sched.Partition) bool {
		return p.FillsHoles && slices.Contains(w.job.Spec.Partitions, p.Name)
	})
}

// partitions are others that are up.
func (w *wait) partitions() []string {
	var names []string
	if w.may.hides("partitions") {
		return nil
	}
	for i := range w.snapshot.Partitions {
		if p := &w.snapshot.Partitions[i]; p.Up && !slices.Contains(w.job.Spec.Partitions, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// models are those of the GPUs that there are, other than one, and none in particular.
func (w *wait) models(but string) []string {
	var names []string
	if w.may.hides("nodes") {
		return nil
	}
	for i := range w.snapshot.Nodes {
		for d := range w.snapshot.Nodes[i].Devices {
			if model := w.snapshot.Nodes[i].Devices[d].Model; model != but && !slices.Contains(names, model) {
				names = append(names, model)
			}
		}
	}
	slices.Sort(names)
	if but == "" {
		return nil // any model fits already
	}
	return append([]string{""}, names...)
}

// qos are others; the update says which of them the account may use.
func (w *wait) qos() []string {
	var names []string
	for qos := range w.view.AllQOS() {
		if qos.Name != w.job.Spec.QOS && !w.may.hides("accounts") {
			names = append(names, qos.Name)
		}
	}
	return names
}

// accounts are others of the job's user.
func (w *wait) accounts() []string {
	var names []string
	for association := range w.view.AssociationsOf(w.job.Owner().User) {
		if association.Account != w.job.Spec.Account && !slices.Contains(names, association.Account) {
			names = append(names, association.Account)
		}
	}
	return names
}

// changed is the queue with the job changed, as the caller may change it.
func (w *wait) changed(change why.Change) (sched.Snapshot, bool) {
	privileged := w.isAdministrator(w.from)
	targets := []state.Target{targetOf(selected{job: w.job})}
	var command state.Command = state.ReleaseJobs{Targets: targets, UID: w.from.uid, Privileged: privileged, Coordinator: w.coordinator(w.from), SeesAll: w.seesAll(w.from)}
	if message := changeMessage(w.job.Spec, change); message != nil {
		update, err := state.ChangeFromMessage(message)
		if err != nil || checkChange(message, privileged) != nil || update.Places() && w.judgeChanged(w.view, w.job, &update) != nil {
			return sched.Snapshot{}, false
		}
		command = state.UpdateJobs{Targets: targets, UID: w.from.uid, Privileged: privileged, Change: update, Coordinator: w.coordinator(w.from), SeesAll: w.seesAll(w.from)}
	}
	after, result := w.view.Try(command, w.now.UnixMilli(), w.job)
	if result.Refused != nil || len(result.Jobs) != 1 || result.Jobs[0].Code != state.OK {
		return sched.Snapshot{}, false
	}
	return w.loops.Snapshot(after, w.now), true
}

// changeMessage is the update that makes a change; nil for a release.
func changeMessage(asked *state.Spec, change why.Change) *pb.JobChange {
	gpus := func(edit func(*pb.GpuRequest)) *pb.JobChange {
		of := asked.GPUs[0]
		request := &pb.GpuRequest{Scope: of.Scope, Count: of.Count, Model: of.Model}
		edit(request)
		return &pb.JobChange{Gpus: &pb.GpuRequests{Requests: []*pb.GpuRequest{request}}}
	}
	switch change.Kind {
	case why.BeginNow:
		return &pb.JobChange{BeginMs: proto.Int64(0)}
	case why.Unreserved:
		return &pb.JobChange{Reservations: proto.String("")}
	case why.AnyNode:
		return &pb.JobChange{NodeList: proto.String("")}
	case why.AnyFeature:
		return &pb.JobChange{Constraint: proto.String("")}
	case why.Unlicensed:
		return &pb.JobChange{Licenses: proto.String("")}
	case why.Independent:
		return &pb.JobChange{Dependency: proto.String("")}
	case why.Savable:
		return &pb.JobChange{Checkpoint: proto.String(spec.CheckpointAuto)}
	case why.ToPartition:
		return &pb.JobChange{Partitions: []string{change.Name}}
	case why.TimeLimit:
		return &pb.JobChange{TimeLimitS: proto.Uint32(change.Number)}
	case why.ToModel:
		return gpus(func(r *pb.GpuRequest) { r.Model = change.Name })
	case why.GPUs:
		return gpus(func(r *pb.GpuRequest) { r.Count = change.Number })
	case why.Nodes:
		return &pb.JobChange{MinNodes: proto.Uint32(change.Number), MaxNodes: proto.Uint32(change.Number)}
	case why.ToQOS:
		return &pb.JobChange{Qos: proto.String(change.Name)}
	case why.ToAccount:
		return &pb.JobChange{Account: proto.String(change.Name)}
	}
	return nil
}
