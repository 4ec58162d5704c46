package leader

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// longQueue is nodes with 8 GPUs that are full, and a queue of jobs of many users and shapes
// behind. Each user has had two runs.
type longQueue struct {
	t     testing.TB
	l     *Leader
	b     *book
	memo  Memo
	apart Memo // of snapshots that are made to see what predicting takes
	users int
	began uint32 // the next running job that ends
}

func newLongQueue(t testing.TB, kind string, nodes, jobs, shapes, users int) *longQueue {
	b := &book{state: state.New()}
	q := &longQueue{t: t, l: New(b, nil, slog.New(slog.DiscardHandler)), b: b, users: users, began: 1}
	b.changed = func(*state.View, []*state.Result) {}
	q.l.leading.Store(true)
	site := *b.View().Policy()
	site.MaxSubmitJobsPerUser, site.MaxJobCount = 10_000_000, 10_000_000
	site.Scheduler = policy.SchedulerFromMessage(&pb.SchedulerPolicy{Type: "backfill", BfJobPartCountReserve: 10, BfMaxJobTest: policy.DefaultPlannedJobs, BfMaxJobArrayResv: 1, ReplayRuns: 10000, Predict: kind})
	q.must(state.ApplyPolicy{Policy: site})
	for n := range nodes {
		inventory := &pb.Inventory{Cpus: 64, MemoryBytes: 512 << 30, BootId: "b"}
		for d := range 8 {
			inventory.Devices = append(inventory.Devices, &pb.Device{Id: fmt.Sprintf("gpu%d", d), Index: uint32(d), Model: "a100", Health: pb.DeviceHealth_DEVICE_HEALTH_OK})
		}
		q.must(state.RegisterFromMessage(&pb.Register{Node: fmt.Sprintf("n%05d", n), Inventory: inventory}))
	}
	for i := range 2 * users { // which end first
		q.submit(i, state.Spec{CPUsPerTask: 1, TimeLimitS: 36000, MemoryPerCPU: 1 << 30})
	}
	q.pass()
	for range 2 * users {
		q.end()
	}
	for i := range jobs {
		of := i % shapes
		q.submit(i, state.Spec{
			CPUsPerTask: uint32(1 + of/8%8), TimeLimitS: uint32(60 * (100 + of/64*7)), MemoryPerCPU: 1 << 30, Nice: int32(of * 7919 % 997),
			GPUs: []state.GPURequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: uint32(1 + of%8)}},
		})
	}
	q.later(learnS * time.Second)
	q.pass()
	return q
}

func (q *longQueue) must(command state.Command) {
	q.t.Helper()
	if result, err := q.b.Propose(context.Background(), command, state.RequestID{}); err != nil || result.Refused != nil {
		q.t.Fatalf("%T: %v, %v", command, err, result.Refused)
	}
}

func (q *longQueue) submit(i int, spec state.Spec) {
	uid := uint32(1000 + i*7%q.users)
	user := fmt.Sprintf("u%d", uid)
	q.must(q.b.state.Abridge(state.SubmitJob{
		Owner:  state.Owner{UID: uid, GID: uid, User: user, Group: user, Home: "/", Shell: "/bin/sh"},
		Script: []byte("#!/bin/sh\n"), Spec: spec, Own: state.Own{Name: "j", WorkDirectory: "/"},
	}))
}

// end lets the next job end that runs.
func (q *longQueue) end() {
	for ; ; q.began++ {
		job, known := q.b.View().Job(q.began)
		if !known {
			q.t.Fatal("no job runs")
		}
		if job.Phase != state.Running {
			continue
		}
		for _, alloc := range job.Run.Allocs {
			ref := state.AllocRef{Job: job.ID, Epoch: job.Epoch, Node: alloc.Node}
			q.must(state.AllocsReady{Allocs: []state.AllocRef{ref}})
		}
		q.later(time.Duration(5+job.ID%10) * time.Second)
		for _, alloc := range job.Run.Allocs {
			q.must(state.AllocsEnded{Reports: []state.AllocReport{{Job: job.ID, Epoch: job.Epoch, Node: alloc.Node, Cause: pb.EndCause_END_CAUSE_EXITED}}})
		}
		return
	}
}

func (q *longQueue) later(by time.Duration) { q.b.skew += by }

func (q *longQueue) now() time.Time { return time.Now().Add(q.b.skew) }

func (q *longQueue) pass() { q.l.Plan(context.Background(), q.now(), &q.memo) }

// predicts is what it takes to predict for one more snapshot.
func (q *longQueue) predicts() time.Duration {
	var snapshot sched.Snapshot
	view := q.b.View()
	snapshot, q.apart.snapshot = view.SchedSnapshotAfter(q.apart.snapshot, q.now().UnixMilli(), state.NodeReports{})
	begin := processor()
	q.l.predicting.fill(view, &snapshot, &q.apart)
	return processor() - begin
}

// processor is what the thread has used of the processor.
func processor() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_THREAD, &used) // it can only fail for other arguments
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkPassByPredictions is passes after one event each: with time limits, with
// predictions that hold since the last pass, and with others each time.
func BenchmarkPassByPredictions(b *testing.B) {
	for _, kind := range []string{"none", policy.PredictRecentTwo, policy.PredictLearned} {
		q := newLongQueue(b, kind, 1000, 100_000, 2000, 50)
		q.predicts()
		for _, learns := range []bool{false, true} {
			if learns && kind == "none" {
				continue
			}
			b.Run(fmt.Sprintf("%s/learns=%t", kind, learns), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var passes, predicting []time.Duration
				for range b.N {
					q.end()
					if learns {
						q.later(learnS * time.Second)
					}
					begin := processor()
					q.pass()
					passes, predicting = append(passes, processor()-begin), append(predicting, q.predicts())
				}
				slices.Sort(passes)
				slices.Sort(predicting)
				b.ReportMetric(float64(passes[b.N/2].Microseconds()), "pass-us")
				b.ReportMetric(float64(predicting[b.N/2].Microseconds()), "predict-us")
			})
		}
	}
}
