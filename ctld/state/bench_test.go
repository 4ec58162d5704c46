package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// benchSubmit is a submission of an ordinary size: a script of 4 KiB, an
// environment of 3 KiB. distinct makes each request another one.
func benchSubmit(n int, distinct bool) (SubmitJob, RequestID) {
	command := SubmitJob{
		Owner:       Owner{UID: 1000, GID: 1000, Groups: []uint32{1000, 27, 44}, User: "user", Group: "user", Home: "/home/user", Shell: "/bin/bash"},
		Script:      bytes.Repeat([]byte("#!/bin/sh\necho something\n"), 160),
		Environment: bytes.Repeat([]byte("SOME_VARIABLE=/some/value:/of/some/length\x00"), 70),
		Spec: Spec{
			ExportOption: "ALL", SubmitHost: "login1", Umask: 0o22, CPUsPerTask: 4, TimeLimitS: 3600,
			GPUs: []GPURequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 1}},
		},
		Own: Own{Name: "train", WorkDirectory: "/home/user/project/experiments", StandardOutput: "logs/%j.out"},
	}
	if distinct {
		command.Own.Name = fmt.Sprintf("train-%d", n)
	}
	var id RequestID
	binary.BigEndian.PutUint64(id[:], uint64(n)+1)
	return command, id
}

func fill(b *testing.B, s *State, jobs int, distinct bool) {
	b.Helper()
	for n := range jobs {
		command, id := benchSubmit(n, distinct)
		applyCommand(b, s, command, id, int64(n))
	}
}

func BenchmarkSubmit(b *testing.B) {
	s := roomy()
	entries := make([][]byte, 0, 1000)
	for n := range cap(entries) {
		command, _ := benchSubmit(n, true)
		entry, err := Encode(command, RequestID{}, 1)
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, entry)
	}
	b.ReportAllocs()
	index := uint64(0)
	for b.Loop() {
		index++
		mustApply(b, s, index, entries[index%uint64(len(entries))])
		if s.nextJob%500_000 == 0 {
			b.StopTimer()
			s, index = roomy(), 0
			b.StartTimer()
		}
	}
}

// BenchmarkMemory prints what one waiting job costs, its remembered request id
// included, when 100,000 share a script and an environment.
func BenchmarkMemory(b *testing.B) {
	const jobs = 100_000
	for name, distinct := range map[string]bool{"alike": false, "distinct": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				s := roomy()
				runtime.GC()
				runtime.ReadMemStats(&before)
				fill(b, s, jobs, distinct)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/jobs, "B/job")
				runtime.KeepAlive(s)
			}
		})
	}
}

func BenchmarkView(b *testing.B) {
	s := roomy()
	fill(b, s, 100_000, true)
	b.ReportAllocs()
	for b.Loop() {
		s.view = nil
		s.View()
	}
}

// BenchmarkSubmitAfterView is a submission while somebody holds a view, as it
// always is.
// BenchmarkCensus is what one look at the metrics costs with 100,000 jobs
// waiting.
func BenchmarkCensus(b *testing.B) {
	s := roomy()
	fill(b, s, 100_000, true)
	view := s.View()
	b.ReportAllocs()
	for b.Loop() {
		if view.Census().Waiting != 100_000 {
			b.Fatal("not all jobs were counted")
		}
	}
}

func BenchmarkSubmitAfterView(b *testing.B) {
	s := roomy()
	fill(b, s, 100_000, true)
	command, _ := benchSubmit(1, false)
	entry, err := Encode(command, RequestID{}, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.View()
		mustApply(b, s, s.Index()+1, entry)
	}
}

func BenchmarkSchedSnapshot(b *testing.B) {
	s := roomy()
	fill(b, s, 100_000, true)
	registerMany(b, s, 1000)
	view := s.View()
	b.ReportAllocs()
	for b.Loop() {
		view.SchedSnapshot(1)
	}
}

func registerMany(b *testing.B, s *State, nodes int) {
	b.Helper()
	for n := range nodes {
		message := &pb.Register{Node: fmt.Sprintf("n%d", n), Inventory: &pb.Inventory{Cpus: 64, MemoryBytes: 1 << 38}}
		for d := range uint32(8) {
			message.Inventory.Devices = append(message.Inventory.Devices, &pb.Device{
				Id: fmt.Sprintf("g%d", d), Index: d, Model: "a100", Health: pb.DeviceHealth_DEVICE_HEALTH_OK,
			})
		}
		applyCommand(b, s, RegisterFromMessage(message), RequestID{}, 1)
	}
}

// BenchmarkPlaceJobs places and ends one job at a time.
func BenchmarkPlaceJobs(b *testing.B) {
	s := roomy()
	fill(b, s, 100_000, true)
	registerMany(b, s, 100)
	id := uint32(0)
	b.ReportAllocs()
	for b.Loop() {
		id = id%100_000 + 1
		node := fmt.Sprintf("n%d", id%100)
		applyCommand(b, s, PlaceJobs{Starts: []StartOrder{{Job: id, Partition: "main", Allocs: []AllocOrder{
			{Node: node, CPUs: []uint32{0, 1, 2, 3}, MemoryBytes: 1 << 30, Devices: []DeviceOrder{{ID: "g0", Shares: 1}}},
		}}}}, RequestID{}, 1)
		job, _ := s.View().Job(id)
		applyCommand(b, s, AllocsEnded{Reports: []AllocReport{{Job: id, Epoch: job.Epoch, Node: node, Cause: pb.EndCause_END_CAUSE_EXITED}}}, RequestID{}, 1)
		if id == 100_000 {
			b.StopTimer()
			s = roomy()
			fill(b, s, 100_000, true)
			registerMany(b, s, 100)
			b.StartTimer()
		}
	}
}

func BenchmarkPersist(b *testing.B) {
	s := roomy()
	fill(b, s, 100_000, true)
	for b.Loop() {
		if err := s.View().Persist(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRestore(b *testing.B) {
	s := roomy()
	fill(b, s, 100_000, true)
	data := persisted(b, s)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Restore(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlan is a whole pass over 100,000 waiting jobs that fit nowhere:
// snapshot, plan, command.
func BenchmarkPlan(b *testing.B) {
	s := roomy()
	fill(b, s, 100_000, false)
	var memo sched.Memo
	for b.Loop() {
		snapshot := s.View().SchedSnapshot(1)
		var plan sched.Plan
		plan, memo = sched.Schedule(snapshot, memo)
		PlanToCommand(&snapshot, &plan)
	}
}

// roomy is a new state in which one user may have any number of jobs.
func roomy() *State {
	s := New()
	policy := *s.policy
	policy.MaxSubmitJobsPerUser, policy.MaxJobCount = 10_000_000, 10_000_000
	s.policy = &policy
	return s
}
