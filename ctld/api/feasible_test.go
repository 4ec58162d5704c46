package api

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// machinesOf is a state with nodes of 64 CPUs and 8 GPUs.
func machinesOf(t testing.TB, nodes int) *state.State {
	t.Helper()
	s := state.New()
	for n := range nodes {
		addMachine(t, s, n)
	}
	return s
}

func addMachine(t testing.TB, s *state.State, n int) {
	t.Helper()
	register := state.RegisterNode{Name: fmt.Sprintf("n%04d", n), Inventory: state.Inventory{CPUs: 64, MemoryBytes: 1 << 38, BootID: "b"}}
	for i := range uint32(8) {
		register.Inventory.Devices = append(register.Inventory.Devices, state.Device{
			ID: fmt.Sprintf("g%d", i), Index: i, Model: "m", Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Shares: 1})
	}
	entry, err := state.Encode(register, state.RequestID{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := s.Apply(s.Index()+1, entry); err != nil || result.Refused != nil {
		t.Fatal(err, result.Refused)
	}
}

func shapeFor(t testing.TB, s *state.State, gpus uint32) *state.Shape {
	t.Helper()
	command, err := state.SubmitFromSpec(&pb.JobSpec{
		Script: []byte("#!/bin/sh\n"), MemoryPerCpuBytes: 1 << 20, Gpus: []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: gpus}},
	}, &pb.Identity{Uid: 7})
	if err != nil {
		t.Fatal(err)
	}
	shape, err := state.ShapeOf(s.Policy(), &command)
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

// TestFeasibleLooksAgain: what fits is remembered, what does not is judged
// again each time, so that a node that has just come counts.
func TestFeasibleLooksAgain(t *testing.T) {
	server, s := &Controller{}, machinesOf(t, 2)
	if err := server.checkFeasible(s.View(), shapeFor(t, s, 16)); err != nil {
		t.Fatalf("16 GPUs on two nodes of 8: %v", err)
	}
	if !server.machines.fits[shapeFor(t, s, 16).Digest()] {
		t.Error("it is not remembered")
	}
	if err := server.checkFeasible(s.View(), shapeFor(t, s, 17)); status.Code(err) != codes.InvalidArgument {
		t.Fatalf("17 GPUs: %v", err)
	}
	addMachine(t, s, 2)
	if err := server.checkFeasible(s.View(), shapeFor(t, s, 17)); err != nil {
		t.Fatalf("17 GPUs after a third node came: %v", err)
	}
}

// BenchmarkFeasible is what a submission costs before it is proposed, on 1,000
// nodes of 8 GPUs: of a shape seen within the last second, and of a new one.
func BenchmarkFeasible(b *testing.B) {
	s := machinesOf(b, 1000)
	server, view, shape := &Controller{}, s.View(), shapeFor(b, s, 16)
	for _, remembered := range []bool{true, false} {
		b.Run(fmt.Sprintf("remembered=%t", remembered), func(b *testing.B) {
			for range b.N {
				if !remembered {
					delete(server.machines.fits, shape.Digest())
				}
				if err := server.checkFeasible(view, shape); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
