package ordered

import (
	"fmt"
	"math"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// intent is a job that a user wants to have once.
type intent struct {
	name   string // the job's comment: others may have the job's name
	uid    uint32
	spec   *pb.JobSpec
	work   time.Duration
	submit *request
	job    uint32 // its number by the log; 0 = not accepted

	// What it waits for, as it was asked for last.
	wishes     []wish
	any        bool          // one of them is enough
	kill       bool          // it is cancelled if they can never be met
	alone      bool          // it is a singleton
	begins     map[int]int64 // by task
	deadlineMS int64
}

// Users are few, so that they are in each other's way.
const (
	firstUser = 1000
	userCount = 4
)

// newIntent makes up a job.
func (w *World) newIntent() *intent {
	r := w.rng
	name := fmt.Sprintf("want-%d", len(w.intentList)+1)
	in := &intent{name: name, uid: uint32(firstUser + r.IntN(userCount))}
	in.work = min(time.Duration(float64(25*time.Minute)*-math.Log(1-r.Float64())), 2*time.Hour) + time.Second
	spec := &pb.JobSpec{
		Name: name, Comment: name, Script: []byte("#!/bin/sh\ntrain " + []string{"small", "large", name}[r.IntN(3)] + " with enough words to be worth a digest of its own\n"),
		WorkDirectory: "/", MemoryPerNodeBytes: 1 << 30, Partitions: []string{"main"}, Requeue: r.IntN(4) > 0,
		CpusPerTask: uint32(1 + r.IntN(4)), Tasks: 1, TimeLimitS: uint32((4 * time.Hour).Seconds()),
	}
	if r.IntN(2) == 0 {
		spec.Partitions = []string{"guest"}
	}
	if r.IntN(3) > 0 {
		spec.Gpus = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: uint32(1 + r.IntN(3))}}
	}
	switch r.IntN(8) {
	case 0:
		spec.MinNodes = uint32(2 + r.IntN(2))
		spec.Tasks = spec.MinNodes
	case 1:
		spec.Array = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: uint32(1 + r.IntN(4)), Step: 1}}}
	}
	in.spec = spec
	w.drawDependencies(in)
	w.drawTimes(in)
	w.drawCharge(in)
	w.drawThrottle(in)
	w.drawConstraint(in)
	w.drawCheckpoint(in)
	if spec.GetArray() != nil {
		in.work /= 4
	}
	w.intents[name] = in
	w.intentList = append(w.intentList, in)
	return in
}
