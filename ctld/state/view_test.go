package state

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// submitJob applies a submission and returns the job's number.
func submitJob(t testing.TB, s *State, job *pb.JobSpec, owner *pb.Identity) uint32 {
	t.Helper()
	command, err := SubmitFromSpec(job, owner)
	if err != nil {
		t.Fatal(err)
	}
	result := applyCommand(t, s, command, RequestID{}, 1000)
	if result.Refused != nil {
		t.Fatal(result.Refused)
	}
	return result.JobID
}

func applyCommand(t testing.TB, s *State, command Command, id RequestID, nowMS int64) Result {
	t.Helper()
	entry, err := Encode(command, id, nowMS)
	if err != nil {
		t.Fatal(err)
	}
	return mustApply(t, s, s.Index()+1, entry)
}

// TestViewStays: a view is what it was, while the state continues and others
// read it. Run with -race.
func TestViewStays(t *testing.T) {
	s := walked(t, 2, 300)
	view := s.View()
	before := persisted(t, s)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for range 5 {
				var out bytes.Buffer
				if err := view.Persist(&out); err != nil || !bytes.Equal(out.Bytes(), before) {
					t.Errorf("a view has changed, or: %v", err)
				}
				view.SchedSnapshot(1)
			}
		})
	}
	w := newWalker(99)
	for range 300 {
		applyCommand(t, s, w.next(s.View()), RequestID{}, 2_000_000)
	}
	readers.Wait()
	if err := view.Check(); err != nil {
		t.Error(err)
	}
	if first, second := s.View(), s.View(); first != second {
		t.Error("a view is rebuilt though nothing has changed")
	}
}

// TestSpecSurvives: what was submitted is what clients and nodes see, field by
// field.
func TestSpecSurvives(t *testing.T) {
	job := &pb.JobSpec{
		Name: "n", Partitions: []string{"main"}, Account: "a", Qos: "q", Comment: "c", Wckey: "w",
		Script: []byte("#!/bin/sh\nexit 0\n"), Arguments: []string{"x", ""}, Environment: []string{"A=1", "B=", "C=x=y\n"},
		WorkDirectory: "/w", StandardOutput: "o", StandardError: "e", StandardInput: "i",
		OpenMode: pb.OpenMode_OPEN_MODE_APPEND, ExportOption: "ALL", SubmitHost: "h", Umask: 0o22, Command: "/w/s.sh",
		MinNodes: 2, MaxNodes: 3, Tasks: 4, TasksPerNode: 2, CpusPerTask: 2, MemoryPerNodeBytes: 7,
		Gpus:       []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 2, Model: "a100"}},
		TimeLimitS: 60, NodeList: "n1", ExcludeNodes: "n9", Constraint: "x&y", Exclusive: true,
		Hold: true, Requeue: true, Nice: -5, Network: pb.Network_NETWORK_PRIVATE,
		Array:  &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 8, Step: 2}}, MaxRunning: 3},
		Signal: "B:USR1@90", Checkpoint: &pb.CheckpointPolicy{Mode: "system", IntervalS: 60},
		Image: "docker://h/n:t@sha256:0", Mounts: []*pb.Mount{{Source: "/a", Target: "/b", ReadOnly: true}},
		Container: &pb.ContainerOptions{WorkDirectory: "/w", Environment: []string{"A"}, Entrypoint: true, NoHome: true},
	}
	owner := &pb.Identity{Uid: 1, Gid: 2, Groups: []uint32{2, 3}, User: "u", Group: "g", Home: "/h", Shell: "/s", UidDomain: "d"}
	s := New()
	id := submitJob(t, s, job, owner)
	v := s.View()
	record, _ := v.Job(id)
	released := *record
	released.Held = sched.NotHeld
	message := v.JobMessage(&released, Overlay{Reason: "Resources", Detail: "because", EstimatedStartMS: 9}, JobDetail{Script: true, Environment: true})
	if d := cmp.Diff(job, message.Spec, protocmp.Transform()); d != "" {
		t.Errorf("the spec has changed:\n%s", d)
	}
	if d := cmp.Diff(owner, message.Owner, protocmp.Transform()); d != "" {
		t.Errorf("the owner has changed:\n%s", d)
	}
	if message.Reason != "Resources" || message.ReasonDetail != "because" || message.EstimatedStartMs != 9 {
		t.Errorf("the leader's reason is not shown: %v", message)
	}
	bare := v.JobMessage(record, Overlay{}, JobDetail{})
	if bare.Spec.Script != nil || bare.Spec.Environment != nil || bare.Reason != "JobHeldUser" {
		t.Errorf("script or environment shown unasked, or no reason: %v", bare)
	}
}

// TestReservedIsRefused: what is not supported is refused by its name.
func TestReservedIsRefused(t *testing.T) {
	for name, job := range map[string]*pb.JobSpec{
		"invalid signal": {Signal: "NOWHERE@60"},
		"afterwards:1":   {Dependency: "afterwards:1"},
		"staging":        {Staging: []*pb.Staging{{}}},
		"--checkpoint":   {Checkpoint: &pb.CheckpointPolicy{Mode: "dmtcp"}},
		"array":          {Array: &pb.ArraySpec{}},
		"environment":    {Environment: []string{"NOVALUE"}},
		"entry":          {Environment: []string{"A=\x00"}},
	} {
		if _, err := SubmitFromSpec(job, &pb.Identity{}); err == nil || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStartOrder: an order has everything its node needs.
func TestStartOrder(t *testing.T) {
	s := New()
	for _, name := range []string{"n1", "n2"} {
		applyCommand(t, s, RegisterFromMessage(&pb.Register{Node: name, Inventory: &pb.Inventory{
			Cpus: 4, MemoryBytes: 64, Address: name + ".example",
			Devices: []*pb.Device{{Id: "g", Model: "m", Health: pb.DeviceHealth_DEVICE_HEALTH_OK}},
		}}), RequestID{}, 1)
	}
	id := submitJob(t, s, &pb.JobSpec{
		Script: []byte("#!/bin/sh\n"), Environment: []string{"A=1"}, MinNodes: 2, Requeue: true,
		Array: &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 3, Last: 4, Step: 1}}},
	}, &pb.Identity{Uid: 7})
	started := applyCommand(t, s, PlaceJobs{Starts: []StartOrder{{Job: id, Partition: "main", Allocs: []AllocOrder{
		{Node: "n1", CPUs: []uint32{0, 2}, MemoryBytes: 5, Tasks: 1, Devices: []DeviceOrder{{ID: "g", Shares: 1}}},
		{Node: "n2", CPUs: []uint32{1}, MemoryBytes: 5, Tasks: 1},
	}}}}, RequestID{}, 2000).Starts[0]
	order, err := s.View().StartAlloc(started.Job, "n2")
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.StartAlloc{
		Alloc: &pb.AllocId{Job: 2, Epoch: 1}, Id: &pb.JobId{Job: 2, ArrayTask: ptr(uint32(3))}, ArrayJobId: 1,
		Array: &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 3, Last: 4, Step: 1}}},
		Owner: &pb.Identity{Uid: 7}, Node: "n2", BatchHost: "n1", Partition: "main", TimeLimitS: spec.Unlimited,
		StartMs: 2000, ClusterName: "gleaner", KillWaitS: 30, LeaseAction: "run-on", Gang: true,
		NodeAddresses: []string{"n1.example", "n2.example"},
		Allocation: []*pb.NodeAllocation{
			{Node: "n1", CpuIds: []uint32{0, 2}, MemoryBytes: 5, Tasks: 1, Devices: []*pb.AllocatedDevice{{Node: "n1", DeviceId: "g", Shares: 1, Model: "m"}}},
			{Node: "n2", CpuIds: []uint32{1}, MemoryBytes: 5, Tasks: 1},
		},
	}
	if string(order.Spec.Script) != "#!/bin/sh\n" || order.Spec.Environment[0] != "A=1" {
		t.Errorf("script or environment is missing: %v", order.Spec)
	}
	order.Spec = nil
	if d := cmp.Diff(want, order, protocmp.Transform()); d != "" {
		t.Errorf("order differs:\n%s", d)
	}
	for job, node := range map[uint32]string{1: "n1", 2: "n3", 99: "n1"} {
		if _, err := s.View().StartAlloc(job, node); err == nil {
			t.Errorf("there is an order for job %d on %s", job, node)
		}
	}
}

func ptr[T any](value T) *T { return &value }

// TestForgetsRequests: by age and by count, oldest first.
func TestForgetsRequests(t *testing.T) {
	s := New()
	id := func(n uint32) RequestID {
		return RequestID{12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}
	}
	submit := SubmitJob{Owner: Owner{UID: 1}, Spec: Spec{Hold: true}}
	first := applyCommand(t, s, submit, id(1), 1000)
	applyCommand(t, s, submit, id(2), 2000)
	for n := range uint32(bounds.KeptRemembered - 1) { // so few are kept however old they are
		applyCommand(t, s, submit, id(10+n), 2000)
	}
	if again := applyCommand(t, s, submit, id(1), 1000+bounds.RememberMS-1); !again.Repeated || again.JobID != first.JobID {
		t.Errorf("a retry within the hour made %+v", again)
	}
	if seen, known := s.Remembered(id(1), KindSubmitJob); !known || seen.JobID != first.JobID {
		t.Errorf("it does not remember: %+v", seen)
	}
	if again := applyCommand(t, s, submit, id(1), 1000+bounds.RememberMS); again.Repeated {
		t.Error("a request id is remembered for more than an hour")
	}
	if again := applyCommand(t, s, submit, id(2), 1000+bounds.RememberMS); !again.Repeated {
		t.Error("a younger request id was forgotten with the older")
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	// Something refused had no effect, and may be asked again.
	bad := SubmitJob{Owner: Owner{UID: 1}, Spec: Spec{Partitions: []string{"none"}}}
	applyCommand(t, s, bad, id(3), 2000+bounds.RememberMS)
	if again := applyCommand(t, s, submit, id(3), 2000+bounds.RememberMS); again.Repeated || again.JobID == 0 {
		t.Errorf("after a refusal: %+v", again)
	}
}

// TestClockJumpForgetsNothing: a clock that jumps ahead by a day does not let
// a retry that is under way take effect twice, unless very much came between.
func TestClockJumpForgetsNothing(t *testing.T) {
	s := New()
	id := func(n uint32) RequestID {
		return RequestID{12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}
	}
	submit := SubmitJob{Owner: Owner{UID: 1}, Spec: Spec{Hold: true}}
	first := applyCommand(t, s, submit, id(1), 1000)
	const day = 24 * 3600 * 1000
	if again := applyCommand(t, s, submit, id(1), day); !again.Repeated || again.JobID != first.JobID {
		t.Errorf("a retry after the clock had jumped made %+v", again)
	}
	for n := range uint32(bounds.KeptRemembered) {
		applyCommand(t, s, submit, id(2+n), day)
	}
	if again := applyCommand(t, s, submit, id(1), day); again.Repeated {
		t.Error("a request id of long ago is remembered behind all the others")
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestLookUps: jobs by task, by user, by node, in pages.
func TestLookUps(t *testing.T) {
	s := New()
	array := submitJob(t, s, &pb.JobSpec{Array: &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 9, Step: 1}}}}, &pb.Identity{Uid: 5})
	plain := submitJob(t, s, &pb.JobSpec{Name: "x"}, &pb.Identity{Uid: 6})
	result := applyCommand(t, s, CancelJobs{Targets: []Target{{Job: array, Tasks: []ranges.Range{{First: 4, Last: 4, Step: 1}}}}, UID: 5}, RequestID{}, 5000)
	v := s.View()
	if job, found := v.JobByTask(array, 4); !found || job.ID != result.Jobs[0].Job || job.Phase != Finished {
		t.Errorf("task 4 is %+v", job)
	}
	if job, found := v.JobByTask(array, 5); !found || job.ID != array {
		t.Errorf("task 5 is %+v", job)
	}
	if _, found := v.JobByTask(array, 10); found {
		t.Error("task 10 is there")
	}
	if _, found := v.JobByTask(plain, 0); found {
		t.Error("a plain job has a task")
	}
	if got := v.UserCounts(5); got != (UserCounts{Waiting: 1, Finished: 1, Submitted: 9, Bytes: 14}) {
		t.Errorf("user 5 has %+v", got)
	}
	var members, page []uint32
	for job := range v.Members(array) {
		members = append(members, job.ID)
	}
	for job := range v.Jobs(plain) {
		page = append(page, job.ID)
	}
	if fmt.Sprint(members, page) != "[1 3] [2 3]" {
		t.Errorf("members and page are %v %v", members, page)
	}
	if got := v.FinishedBefore(5000, 10); len(got) != 0 {
		t.Errorf("finished before its end: %v", got)
	}
	if got := v.FinishedBefore(5001, 10); len(got) != 1 {
		t.Errorf("not finished after its end: %v", got)
	}
}

// TestPolicyDiff lists what differs by the names of the file.
func TestPolicyDiff(t *testing.T) {
	after, err := policy.Normalize(policy.FromMessage(&pb.Policy{
		ClusterName: "lab", Administrators: []string{"b", "a", "b"},
		Partitions: []*pb.Partition{{Name: "gpu", Nodes: "n2,n1", Up: true, DefaultTimeS: 60, DefaultMemoryPerCpuBytes: 1 << 30}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, change := range policy.Diff(policy.Default(), after) {
		got = append(got, fmt.Sprintf("%s: %q -> %q", change.Path, change.Before, change.After))
	}
	want := []string{
		`cluster_name: "gleaner" -> "lab"`,
		`administrators: "" -> "a,b"`,
		`partitions.gpu.nodes: "" -> "n[1-2]"`,
		`partitions.gpu.default: "" -> "false"`,
		`partitions.gpu.up: "" -> "true"`,
		`partitions.gpu.max_time: "" -> "UNLIMITED"`,
		`partitions.gpu.default_time: "" -> "1:00"`,
		`partitions.gpu.priority_tier: "" -> "0"`,
		`partitions.gpu.allow_root_jobs: "" -> "false"`,
		`partitions.gpu.lease_action: "" -> "run-on"`,
		`partitions.gpu.default_memory_per_cpu: "" -> "1G"`,
		`partitions.main.nodes: "ALL" -> ""`,
		`partitions.main.default: "true" -> ""`,
		`partitions.main.up: "true" -> ""`,
		`partitions.main.max_time: "UNLIMITED" -> ""`,
		`partitions.main.priority_tier: "1" -> ""`,
		`partitions.main.allow_root_jobs: "false" -> ""`,
		`partitions.main.lease_action: "run-on" -> ""`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := policy.Diff(after, after); len(d) != 0 {
		t.Errorf("a policy differs from itself: %v", d)
	}
	again, err := policy.Normalize(policy.FromMessage(policy.Message(after)))
	if err != nil {
		t.Fatal(err)
	}
	if d := policy.Diff(after, again); len(d) != 0 {
		t.Errorf("a policy does not survive its message: %v", d)
	}
}
