package state

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// sharesMessage is a policy with what a snapshot has of the order of jobs.
func sharesMessage() *pb.Policy {
	return &pb.Policy{
		Partitions: []*pb.Partition{{
			Name: "gpu", Nodes: "ALL", Up: true, PriorityJobFactor: 5, Qos: "gpus", PreemptMode: "cancel", GraceTimeS: 60,
			TresBillingWeights: map[string]float64{"cpu": 1, "mem": 0.25, "gres/gpu:a100": 4.5},
			AllowAccounts:      []string{"physics", "chemistry"}, AllowQos: []string{"high"}, Exclusive: "user",
		}, {Name: "main", Nodes: "ALL", Up: true}},
		Priority: &pb.PriorityPolicy{
			WeightAge: 1000, WeightAssoc: 1, WeightFairShare: 10000, WeightJobSize: 2, WeightPartition: 3, WeightQos: 4,
			WeightTres: map[string]uint32{"cpu": 7, "gres/gpu": 8, "license/matlab": 9}, MaxAgeS: 14 * 86400,
			DecayHalfLifeS: sched.Unlimited, FavorSmall: true, SmallRelativeToTime: true, MaxTres: true,
		},
		Preempt:  &pb.PreemptPolicy{Type: "qos", Mode: "requeue", ExemptTimeS: 60},
		Licenses: []*pb.License{{Name: "matlab", Count: 3}, {Name: "abaqus", Count: 2}},
		Switches: []*pb.Switch{{Name: "top", Switches: "s[1-2]"}, {Name: "s1", Nodes: "n[1-2]"}, {Name: "s2", Nodes: "n3"}},
		Owners:   []*pb.Owner{{Account: "physics", Nodes: "n3,n1"}, {Account: "Chemistry", Nodes: "n2"}},
	}
}

// TestSnapshotHasThePolicy: what the scheduler is told of it.
func TestSnapshotHasThePolicy(t *testing.T) {
	s := New()
	policy := policy.FromMessage(sharesMessage())
	for i := range policy.Partitions {
		if name := policy.Partitions[i].QOS; name != "" {
			applyCommand(t, s, ChangeAccounts{Changes: []AccountChange{{Action: AddRecord, Record: QOSRecord, QOS: name}}}, RequestID{}, 1)
		}
	}
	for _, owner := range policy.Owners {
		applyCommand(t, s, ChangeAccounts{Changes: []AccountChange{{Action: AddRecord, Record: AccountRecord, Account: strings.ToLower(owner.Account)}}}, RequestID{}, 1)
	}
	applyCommand(t, s, ApplyPolicy{Policy: *policy}, RequestID{}, 1)
	for _, name := range []string{"n1", "n2", "n3"} {
		applyCommand(t, s, RegisterFromMessage(&pb.Register{Node: name, Inventory: &pb.Inventory{BootId: "b",
			Cpus: 4, MemoryBytes: 1 << 30, Devices: []*pb.Device{{Id: "g", Model: "a100", Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Shares: 1}},
		}}), RequestID{}, 1)
	}
	got := s.View().SchedSnapshot(1)
	if d := cmp.Diff([]string{"billing", "cpu", "gres/gpu", "gres/gpu:a100", "license/abaqus", "license/matlab", "mem", "node"}, got.TRES); d != "" {
		t.Fatal(d)
	}
	wantPriority := sched.PriorityPolicy{
		WeightAge: 1000, WeightAssociation: 1, WeightFairShare: 10000, WeightJobSize: 2, WeightPartition: 3, WeightQOS: 4,
		WeightTRES: []uint32{0, 7, 8, 0, 0, 9, 0, 0}, MaxAgeS: 14 * 86400, FavorSmall: true, SmallRelativeToTime: true, MaxTRES: true,
	}
	if d := cmp.Diff(wantPriority, got.Priority); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(sched.PreemptionPolicy{Type: sched.PreemptByQOS, Mode: sched.PreemptRequeue, ExemptTimeS: 60}, got.Preemption); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]sched.License{{Name: "abaqus", Total: 2}, {Name: "matlab", Total: 3}}, got.Licenses); d != "" {
		t.Error(d)
	}
	switches := []place.Switch{{Name: "s1", Nodes: []place.NodeIndex{0, 1}}, {Name: "s2", Nodes: []place.NodeIndex{2}}, {Name: "top", Level: 1, Nodes: []place.NodeIndex{0, 1, 2}}}
	if d := cmp.Diff(switches, got.Switches, cmpopts.IgnoreUnexported(place.Switch{})); d != "" {
		t.Error(d)
	}
	gpu, main := got.Partitions[0], got.Partitions[1]
	if gpu.PriorityJobFactor != 5 || gpu.Preempt != sched.PreemptCancel || gpu.GraceTimeS != 60 || gpu.QOS != 0 {
		t.Errorf("partition gpu: %+v", gpu)
	}
	if d := cmp.Diff([]int64{0, 1e6, 0, 4.5e6, 0, 0, 250_000, 0}, gpu.BillingWeights); d != "" {
		t.Error(d)
	}
	if main.PriorityJobFactor != 1 || main.BillingWeights != nil || main.QOS != -1 {
		t.Errorf("partition main: %+v", main)
	}
}
