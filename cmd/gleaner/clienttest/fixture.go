package clienttest

import (
	"fmt"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// ago is a moment before StubNow.
func ago(d time.Duration) int64 { return StubNow.Add(-d).UnixMilli() }

// Ptr is a pointer to a value.
func Ptr[T any](v T) *T { return &v }

var (
	Ada   = &pb.Identity{Uid: 1001, Gid: 100, User: "ada", Group: "users"}
	grace = &pb.Identity{Uid: 1002, Gid: 100, User: "grace", Group: "users"}
)

// StubCluster is one cluster in which everything that the commands show
// occurs once.
func StubCluster() *StubController {
	return &StubController{Jobs: StubJobs(), Nodes: StubNodes(), Partitions: StubPartitions(), Health: StubStatus(3), Policy: &pb.Policy{Priority: stubWeights()}}
}

// StubJobs are the jobs of StubCluster.
func StubJobs() []*pb.Job {
	running := &pb.Job{
		Id: &pb.JobId{Job: 101}, Owner: Ada, State: pb.JobState_JOB_STATE_RUNNING, Reason: "None", Priority: 1000, Epoch: 1,
		SubmitMs: ago(2 * time.Hour), EligibleMs: ago(2 * time.Hour), StartMs: ago(26*time.Hour + 3*time.Minute + 4*time.Second),
		Partition: "main", TimeLimitS: 48 * 3600, NodeList: "n[1-2]", BatchHost: "n1", Cpus: 4, Nodes: 2, Billing: 12,
		Spec: &pb.JobSpec{
			Name: "train-the-large-model", WorkDirectory: "/home/ada", Command: "/home/ada/train.sh", Tasks: 4, CpusPerTask: 1, Account: "physics", Requeue: true,
			MemoryPerNodeBytes: 4 << 30, Gpus: []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 2, Model: "a100"}},
			StandardOutput: "out-%j.txt", SubmitHost: "login1", MinNodes: 2, TimeMinS: 24 * 3600,
		},
		Allocation: []*pb.NodeAllocation{
			{Node: "n1", CpuIds: []uint32{0, 1}, MemoryBytes: 4 << 30, Devices: []*pb.AllocatedDevice{
				{Node: "n1", DeviceId: "g0", Model: "a100", Index: 0}, {Node: "n1", DeviceId: "g1", Model: "a100", Index: 1}}},
			{Node: "n2", CpuIds: []uint32{0, 1}, MemoryBytes: 4 << 30, Devices: []*pb.AllocatedDevice{
				{Node: "n2", DeviceId: "h0", Model: "a100", Index: 0}, {Node: "n2", DeviceId: "h2", Model: "a100", Index: 2}}},
		},
	}
	waiting := &pb.Job{
		Id: &pb.JobId{Job: 102}, Owner: grace, State: pb.JobState_JOB_STATE_PENDING, Reason: "Resources",
		ReasonDetail: "needs 8 a100 on one node; the largest has 4", Priority: 900, SubmitMs: ago(time.Minute), EligibleMs: ago(time.Minute),
		EstimatedStartMs: StubNow.Add(time.Hour).UnixMilli(), Partition: "main,gpu", TimeLimitS: spec.Unlimited, Cpus: 8, Nodes: 1, Billing: 8,
		Spec: &pb.JobSpec{Name: "wide", WorkDirectory: "/home/grace", CpusPerTask: 8, MemoryPerCpuBytes: 256 << 20, Comment: "asked twice",
			Gpus: []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: 8}}, Nice: 5, Exclusive: true, Constraint: "nvlink"},
	}
	array := &pb.Job{
		Id: &pb.JobId{Job: 108}, ArrayJobId: 108, Owner: Ada, State: pb.JobState_JOB_STATE_PENDING, Reason: "Priority", Priority: 950,
		WaitingTasks: &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 2, Last: 5, Step: 1}}, MaxRunning: 2},
		SubmitMs:     ago(time.Minute), EligibleMs: ago(time.Minute), Partition: "gpu", TimeLimitS: 60, Cpus: 1, Nodes: 1, Billing: 1,
		Spec: &pb.JobSpec{Name: "sweep", WorkDirectory: "/home/ada"},
	}
	task := &pb.Job{
		Id: &pb.JobId{Job: 109, ArrayTask: Ptr(uint32(1))}, ArrayJobId: 108, Owner: Ada, State: pb.JobState_JOB_STATE_RUNNING, Reason: "None",
		Priority: 950, Epoch: 1, Completing: true, SubmitMs: ago(time.Minute), StartMs: ago(5 * time.Second), Partition: "gpu", TimeLimitS: 60,
		NodeList: "n3", BatchHost: "n3", Cpus: 1, Nodes: 1, Billing: 1, Spec: &pb.JobSpec{Name: "sweep", WorkDirectory: "/home/ada",
			Signal: "B:USR1@60", Checkpoint: &pb.CheckpointPolicy{Mode: "app"}},
	}
	failed := &pb.Job{
		Id: &pb.JobId{Job: 103}, Owner: Ada, State: pb.JobState_JOB_STATE_FAILED, Reason: "NonZeroExitCode", Priority: 1, Epoch: 2, RestartCount: 1,
		SubmitMs: ago(time.Hour), EligibleMs: ago(time.Hour), StartMs: ago(50 * time.Minute), EndMs: ago(40 * time.Minute), Partition: "main",
		TimeLimitS: 3600, NodeList: "n1", BatchHost: "n1", Cpus: 1, Nodes: 1, Billing: 1, ExitCode: 7,
		Spec: &pb.JobSpec{Name: "oops\x1b[2J", WorkDirectory: "/home/ada", Checkpoint: &pb.CheckpointPolicy{IntervalS: 7200, Directory: "saved"}}, Usage: &pb.Usage{PeakMemoryBytes: 300 << 20, CpuNs: 65e9},
	}
	return []*pb.Job{running, waiting, failed, array, task}
}

// StubPartitions are the partitions of StubCluster.
func StubPartitions() []*pb.Partition {
	return []*pb.Partition{
		{Name: "main", Nodes: "ALL", IsDefault: true, Up: true, MaxTimeS: spec.Unlimited, PriorityTier: 1, LeaseAction: "run-on", DefaultMemoryPerCpuBytes: 256 << 20},
		{Name: "gpu", Nodes: "n[3-4]", Up: true, MaxTimeS: 24 * 3600, DefaultTimeS: 3600, PriorityTier: 10, LeaseAction: "fence", AllowGroups: []string{"physics"}, AllowRootJobs: true},
		{Name: "empty", Nodes: "n9", MaxTimeS: 1800, PriorityTier: 1},
	}
}

func gpu(id string, index uint32, model string) *pb.Device {
	return &pb.Device{Id: id, Index: index, Model: model, MemoryBytes: 40 << 30, Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Shares: 1, Product: "Example " + model}
}

// StubNodes are the nodes of StubCluster.
func StubNodes() []*pb.Node {
	inventory := func(devices ...*pb.Device) *pb.Inventory {
		return &pb.Inventory{Cpus: 4, RealCpus: 4, MemoryBytes: 16000 << 20, Devices: devices, Version: "0.1.0", Os: "Linux 6.18.0", Arch: "x86_64",
			HostName: "host", BootId: "b", CgroupVersion: "v2", Sockets: 1, CoresPerSocket: 4, ThreadsPerCore: 1, Features: []string{"nvlink", "ssd"}}
	}
	dead := gpu("k1", 1, "h200")
	dead.Health, dead.HealthDetail = pb.DeviceHealth_DEVICE_HEALTH_FAILED, "fell off the bus"
	pretending := inventory(gpu("k0", 0, "h200"), dead)
	pretending.RealCpus = 2
	return []*pb.Node{
		{Name: "n1", State: pb.NodeState_NODE_STATE_MIXED, Inventory: inventory(gpu("g0", 0, "a100"), gpu("g1", 1, "a100"), gpu("g2", 2, "a100"), gpu("g3", 3, "a100")),
			Partitions: []string{"main"}, AllocatedCpus: 2, AllocatedMemoryBytes: 4 << 30, AllocatedDeviceIds: []string{"g0", "g1"}, RunningJobs: []uint32{101}, RegisteredMs: ago(time.Hour),
			OwnerAccount: "chem", Reclaim: StubReclaim()},
		{Name: "n2", State: pb.NodeState_NODE_STATE_MIXED, Inventory: inventory(gpu("h0", 0, "a100"), gpu("h1", 1, "a100"), gpu("h2", 2, "a100"), gpu("h3", 3, "a100")),
			Partitions: []string{"main"}, AllocatedCpus: 2, AllocatedMemoryBytes: 4 << 30, AllocatedDeviceIds: []string{"h0", "h2"}, RunningJobs: []uint32{101}, Drain: true,
			Reason: "fan is failing", ReasonMs: ago(30 * time.Minute), ReasonUser: "root", RegisteredMs: ago(time.Hour)},
		{Name: "n3", State: pb.NodeState_NODE_STATE_IDLE, Inventory: pretending, Partitions: []string{"main", "gpu"}, RegisteredMs: ago(time.Hour)},
		{Name: "n4", State: pb.NodeState_NODE_STATE_DOWN, NotResponding: true, Partitions: []string{"main", "gpu"}, Inventory: inventory(), Reason: "Not responding", ReasonMs: ago(time.Minute), ReasonUser: "root",
			LeftOvers: []*pb.LeftOver{{What: "/var/lib/gleaner/jobs/7.1", Error: "device or resource busy", SinceMs: ago(time.Hour)}}},
	}
}

// StubReclaim is the reclaim of n1, from which one guest has left.
func StubReclaim() *pb.Reclaim {
	return &pb.Reclaim{
		Number: 7, By: "grace", AtMs: ago(time.Second), DeadlineMs: StubNow.Add(59 * time.Second).UnixMilli(), UntilMs: StubNow.Add(4 * time.Hour).UnixMilli(),
		Holds: []*pb.ReclaimHold{
			{Trigger: pb.ReclaimTrigger_RECLAIM_TRIGGER_COMMAND, By: "grace", SinceMs: StubNow.UnixMilli() - 1000, UntilMs: StubNow.Add(4 * time.Hour).UnixMilli()},
			{Trigger: pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN, By: "hedy", SinceMs: StubNow.UnixMilli(), UntilMs: StubNow.Add(time.Hour).UnixMilli(), Detail: "on tty1"},
		},
		Guests: []*pb.ReclaimedGuest{
			{Id: &pb.JobId{Job: 101}, Job: 101, Epoch: 1, Name: "train-the-large-model", User: "ada", Account: "physics", Cpus: 2, Gpus: 2, MemoryBytes: 4 << 30, Fate: pb.GuestFate_GUEST_FATE_PARK},
			{Id: &pb.JobId{Job: 108, ArrayTask: Ptr(uint32(1))}, Job: 109, Epoch: 1, Name: "sweep\x1b[2J", User: "eve\x1b[2J", Cpus: 1, MemoryBytes: 300 << 20, Fate: pb.GuestFate_GUEST_FATE_REQUEUE,
				FreedMs: ago(790 * time.Millisecond), Detail: "it resumes from image 3"},
			{Cpus: 1, Fate: pb.GuestFate_GUEST_FATE_ENDING},
		},
	}
}

// StubStatus is a cluster in which everything that can be wrong is wrong once;
// fine is how many further nodes have nothing wrong with them.
func StubStatus(fine int) *pb.StatusResponse {
	answer := &pb.StatusResponse{
		AnsweredBy: "c1", Leader: "c1", Term: 3, AppliedIndex: 4211, Level: 2, JobsWaiting: 12, JobsRunning: 3, JobsEnding: 1,
		Peers: []*pb.Peer{
			{Name: "c1", Address: "10.0.0.1:6818", Voter: true, Leader: true, Reachable: true, Version: "0.1.0", Level: 2, AppliedIndex: 4211},
			{Name: "c2", Address: "10.0.0.2:6818", Voter: true, Reachable: true, Version: "0.1.0", Level: 2, AppliedIndex: 4209, LastContactMs: 12},
			{Name: "c3", Address: "10.0.0.3:6818", Voter: true, LastContactMs: 200_000, Problem: "connection refused: start gctld there"},
			{Name: "c4", Address: "10.0.0.4:6818", Reachable: true, Version: "0.2.0", Level: 3, AppliedIndex: 7, LastContactMs: -1},
		},
		Problems: []string{"controller c3 cannot be reached: connection refused: start gctld there", "node bad\x1b[2J does not answer"},
	}
	for n := range fine {
		answer.Leases = append(answer.Leases, &pb.NodeLease{Node: fmt.Sprintf("n%02d", n), Connected: true, AgeMs: 900, LeftMs: 44_100})
	}
	answer.Leases = append(answer.Leases,
		&pb.NodeLease{Node: "x1", Connected: true, AgeMs: 30_000, LeftMs: 15_000},
		&pb.NodeLease{Node: "x2", AgeMs: 20_000, LeftMs: 25_000},
		&pb.NodeLease{Node: "x3", AgeMs: 245_000, LeftMs: -200_000},
		&pb.NodeLease{Node: "x4", Connected: true, AgeMs: 1_000, LeftMs: 44_000, FrozenAllocs: 2},
		&pb.NodeLease{Node: "x5", AgeMs: -1, LeftMs: 30_000})
	return answer
}
