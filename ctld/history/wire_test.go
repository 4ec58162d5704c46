package history

import (
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// fullRun has fields of every kind, nested ones too.
func fullRun() *pb.PastRun {
	task := uint32(3)
	return &pb.PastRun{
		RanMs: 5000, Requeued: true, Borrowed: []*pb.Borrowed{{Owner: "lab", Gpus: 1}},
		Job: &pb.Job{
			Id: &pb.JobId{Job: 7, ArrayTask: &task}, ArrayJobId: 5, State: pb.JobState_JOB_STATE_FAILED, Reason: "é", Owner: &pb.Identity{Uid: 1000, User: "ada"},
			Spec:       &pb.JobSpec{Name: "train", Partitions: []string{"a", "b"}, Nice: -3},
			Allocation: []*pb.NodeAllocation{{Node: "n1", CpuIds: []uint32{1, 2, 300}, Devices: []*pb.AllocatedDevice{{Model: "a100"}}}},
		},
		Steps: []*pb.NodeSteps{{Node: "n1", Steps: []*pb.StepPart{{Name: "one"}, {Name: "two"}}}},
	}
}

// TestDecodes: bytes that are changed, cut, or made by chance count as a run exactly if
// they can be decoded as one.
func TestDecodes(t *testing.T) {
	whole, err := proto.Marshal(fullRun())
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	good := 0
	for range prototest.Soak(20_000, 5_000_000) {
		bytes := append([]byte(nil), whole...)
		for range random.IntN(4) {
			bytes[random.IntN(len(bytes))] ^= 1 << random.IntN(8)
		}
		if random.IntN(4) == 0 {
			bytes = bytes[:random.IntN(len(bytes))]
		}
		err := proto.Unmarshal(bytes, new(pb.PastRun))
		if err == nil {
			good++
		}
		if runShape.decodes(bytes) != (err == nil) {
			t.Fatalf("%x: %v", bytes, err)
		}
	}
	if good < 1000 {
		t.Errorf("only %d can be decoded", good)
	}
}

func FuzzDecodes(f *testing.F) {
	whole, err := proto.Marshal(fullRun())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if err := proto.Unmarshal(bytes, new(pb.PastRun)); runShape.decodes(bytes) != (err == nil) {
			t.Fatalf("%x: %v", bytes, err)
		}
	})
}

func TestWithoutSteps(t *testing.T) {
	run := fullRun()
	for range 2 { // with steps, and without
		bytes, err := proto.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		var got pb.PastRun
		if err := proto.Unmarshal(WithoutSteps(bytes), &got); err != nil {
			t.Fatal(err)
		}
		if run.Steps = nil; !proto.Equal(&got, run) {
			t.Errorf("%v", &got)
		}
	}
	if text := []byte{0xff}; string(WithoutSteps(text)) != "\xff" {
		t.Error("what is no run was changed")
	}
}
