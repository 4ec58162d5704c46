package state

import (
	"fmt"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// limitedState is a thousand nodes with eight jobs each, and a thousand
// accounts with a user and limits each.
func limitedState(b *testing.B, enforced bool) *State {
	s := New()
	registerMany(b, s, 1000)
	for n := range 1000 {
		account := fmt.Sprintf("a%d", n)
		applyCommand(b, s, ChangeAccounts{Changes: []AccountChange{
			{Action: AddRecord, Record: AccountRecord, Account: account, Limits: []LimitChange{{Limit: LimitGroupTRES, TRES: "gres/gpu", Value: 100}}},
			{Action: AddRecord, Record: AssociationRecord, Account: account, User: fmt.Sprintf("u%d", n), Limits: []LimitChange{{Limit: LimitMaxJobs, Value: 100}, {Limit: LimitMaxSubmit, Value: 1000}}},
		}}, RequestID{}, 1)
	}
	policy := *policy.Default()
	policy.Accounting.EnforceLimits = enforced
	applyCommand(b, s, ApplyPolicy{Policy: policy}, RequestID{}, 1)
	var starts []StartOrder
	for n := range 8000 {
		id := applyCommand(b, s, limitedSubmit(n), RequestID{}, 1).JobID
		first := uint32(n/1000) * 4
		starts = append(starts, StartOrder{Job: id, Partition: "main", Allocs: []AllocOrder{{
			Node: fmt.Sprintf("n%d", n%1000), CPUs: []uint32{first, first + 1, first + 2, first + 3}, MemoryBytes: 1 << 30,
			Devices: []DeviceOrder{{ID: fmt.Sprintf("g%d", n/1000), Shares: 1}},
		}}})
	}
	for _, start := range applyCommand(b, s, PlaceJobs{Starts: starts}, RequestID{}, 1).Starts {
		if start.Dropped != "" {
			b.Fatal(start.Dropped)
		}
	}
	return s
}

func limitedSubmit(n int) SubmitJob {
	user := n % 1000
	return SubmitJob{
		Owner: Owner{UID: uint32(1000 + user), User: fmt.Sprintf("u%d", user)}, Script: []byte("#!/bin/sh\n"),
		Spec: Spec{Account: fmt.Sprintf("a%d", user), TimeLimitS: 3600, CPUsPerTask: 4, MemoryPerNode: 1 << 30, GPUs: []GPURequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 1}}},
	}
}

// BenchmarkPlaceWithLimits places one job and ends it while 7,999 run, with and
// without limits: each command that places counts what runs once.
func BenchmarkPlaceWithLimits(b *testing.B) {
	for _, enforced := range []bool{false, true} {
		b.Run(fmt.Sprintf("running=8000/accounts=1000/enforced=%v", enforced), func(b *testing.B) {
			s := limitedState(b, enforced)
			id := uint32(1)
			order := AllocOrder{Node: "n0", CPUs: []uint32{0, 1, 2, 3}, MemoryBytes: 1 << 30, Devices: []DeviceOrder{{ID: "g0", Shares: 1}}}
			b.ReportAllocs()
			for b.Loop() {
				job, _ := s.Job(id)
				applyCommand(b, s, AllocsEnded{Reports: []AllocReport{{Job: id, Epoch: job.Epoch, Node: "n0", Cause: pb.EndCause_END_CAUSE_EXITED}}}, RequestID{}, 1)
				id = applyCommand(b, s, limitedSubmit(0), RequestID{}, 1).JobID
				if answer := applyCommand(b, s, PlaceJobs{Starts: []StartOrder{{Job: id, Partition: "main", Allocs: []AllocOrder{order}}}}, RequestID{}, 1); answer.Starts[0].Dropped != "" {
					b.Fatal(answer.Starts[0].Dropped)
				}
			}
		})
	}
}

// BenchmarkSubmitWithLimits submits jobs of a thousand users.
func BenchmarkSubmitWithLimits(b *testing.B) {
	for _, enforced := range []bool{false, true} {
		b.Run(fmt.Sprintf("accounts=1000/enforced=%v", enforced), func(b *testing.B) {
			s := limitedState(b, enforced)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				applyCommand(b, s, limitedSubmit(n), RequestID{}, 1)
			}
		})
	}
}
