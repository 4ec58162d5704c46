package api

import (
	"iter"
	"math"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Recording is what a replay needs of a state, in pieces far below the size of a
// Message.
func Recording(view *state.View) iter.Seq[*pb.Recording] {
	return func(yield func(*pb.Recording) bool) {
		piece := &pb.Recording{TimeS: view.TimeMS() / 1000, Policy: policy.Message(view.Policy())}
		// pass hands the piece on when it has a number of entries.
		count, stopped := 0, false
		pass := func() bool {
			if count++; count%recordedPerPiece == 0 {
				stopped = !yield(piece)
				piece = &pb.Recording{}
			}
			return !stopped
		}
		for node := range view.Nodes() {
			if node.Inventory == nil {
				continue
			}
			if piece.Nodes = append(piece.Nodes, recordedNode(node)); !pass() {
				return
			}
		}
		for account := range view.Accounts() {
			if piece.Accounts = append(piece.Accounts, &pb.RecordedAccount{Name: account.Name, Parent: account.Parent}); !pass() {
				return
			}
		}
		for run := range recordedRuns(view) {
			if piece.Runs = append(piece.Runs, run); !pass() {
				return
			}
		}
		yield(piece)
	}
}

// recordedPerPiece is how many entries a piece has: a node with many GPUs is the
// largest.
const recordedPerPiece = 200

func recordedNode(node *state.Node) *pb.RecordedNode {
	out := &pb.RecordedNode{Name: node.Name, Cpus: node.Inventory.CPUs, MemoryBytes: node.Inventory.MemoryBytes, Features: node.Inventory.Features}
	for i := range node.Inventory.Devices {
		if device := &node.Inventory.Devices[i]; device.Parent == "" {
			out.Gpus = append(out.Gpus, device.Model)
		}
	}
	return out
}

// recordedRuns are the runs that are over, then those that are not, then what waits and
// nobody holds.
func recordedRuns(view *state.View) iter.Seq[*pb.RecordedRun] {
	return func(yield func(*pb.RecordedRun) bool) {
		for run := range view.EndedRuns() {
			out := ofKind(run.Kind())
			out.JobId, out.EligibleS, out.StartS, out.EndS, out.RanS = run.Job, run.EligibleS, run.StartS, run.EndS, run.RanS
			if !yield(out) {
				return
			}
		}
		for job := range view.LiveJobs() {
			if job.Phase == state.Waiting && job.Held != 0 {
				continue
			}
			if !yield(recordedLive(job, view.TimeMS())) {
				return
			}
		}
	}
}

func ofKind(kind *state.RunKind) *pb.RecordedRun {
	return &pb.RecordedRun{
		LimitS: kind.LimitS, User: kind.User, Account: kind.Account, Partition: kind.Partition, Model: kind.Model,
		Nodes: kind.Nodes, Cpus: kind.CPUs, Gpus: kind.GPUs, MemoryBytes: kind.MemoryBytes,
	}
}

func recordedLive(job *state.Job, nowMS int64) *pb.RecordedRun {
	if job.Phase == state.Waiting {
		kind := job.WantedKind()
		out := ofKind(&kind)
		out.JobId, out.EligibleS, out.Count = job.ID, seconds(max(job.SubmitMS, job.EligibleMS)), job.TaskCount()
		return out
	}
	kind := job.RunKind()
	out := ofKind(&kind)
	out.JobId, out.StartS = job.ID, seconds(job.Run.StartMS)
	out.EligibleS = min(seconds(max(job.SubmitMS, job.EligibleMS)), out.StartS)
	out.RanS = seconds(job.Run.RanAtMS(nowMS))
	return out
}

func seconds(ms int64) uint32 { return uint32(min(max(ms/1000, 0), math.MaxUint32)) }
