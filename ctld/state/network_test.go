package state

import (
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
)

const (
	unsaid  = pb.Network_NETWORK_UNSPECIFIED
	host    = pb.Network_NETWORK_HOST
	private = pb.Network_NETWORK_PRIVATE
)

// networked is a policy of a site with a rule, and four partitions: as the site
// says, and with each rule of its own.
func networked(t *testing.T, site string) *policy.Policy {
	t.Helper()
	message := policy.Message(policy.Default())
	message.Network = site
	message.Partitions = nil
	for name, rule := range map[string]string{"site": "", "open": "host", "own": "private", "closed": "private-only"} {
		message.Partitions = append(message.Partitions, &pb.Partition{Name: name, Nodes: "ALL", Up: true, Network: rule})
	}
	policy, err := policy.Normalize(policy.FromMessage(message))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// TestNetworkOfASubmission: what a job gets by what it and its partitions say,
// in each order of these.
func TestNetworkOfASubmission(t *testing.T) {
	for _, test := range []struct {
		site, partitions string
		asked, want      pb.Network // unsaid: it is refused
	}{
		{"", "site", unsaid, host}, {"host", "site", unsaid, host}, {"private", "site", unsaid, private}, {"private-only", "site", unsaid, private},
		{"", "site", host, host}, {"private", "site", host, host}, {"private-only", "site", host, unsaid}, {"private-only", "site", private, private},
		// The partition's own rule counts before the site's, in both directions.
		{"private-only", "open", unsaid, host}, {"private-only", "open", host, host}, {"", "own", unsaid, private}, {"", "own", host, host},
		{"", "closed", unsaid, private}, {"", "closed", host, unsaid}, {"", "closed", private, private}, {"", "open", private, private},
		// Of several the strictest.
		{"", "open,closed", unsaid, private}, {"", "closed,open", unsaid, private}, {"", "open,own", unsaid, private}, {"", "site,open", unsaid, host},
		{"", "open,closed", host, unsaid}, {"", "closed,open", host, unsaid}, {"", "open,own", host, host}, {"private-only", "open,site", host, unsaid},
		{"", "open,own,closed", host, unsaid}, {"", "open,closed", private, private},
	} {
		s := New()
		applyCommand(t, s, ApplyPolicy{Policy: *networked(t, test.site)}, RequestID{}, 1)
		command, err := SubmitFromSpec(&pb.JobSpec{Script: []byte("#!/bin/sh\n"), Partitions: strings.Split(test.partitions, ","), Network: test.asked}, &pb.Identity{Uid: 7})
		if err != nil {
			t.Fatal(err)
		}
		_, shapeErr := ShapeOf(s.View().Policy(), &command)
		result := applyCommand(t, s, command, RequestID{}, 1)
		if refused := test.want == unsaid; refused != (result.Refused != nil) || refused != (shapeErr != nil) {
			t.Errorf("%+v: refused with %v, and judged before with %v", test, result.Refused, shapeErr)
			continue
		}
		if result.Refused != nil {
			if !strings.Contains(result.Refused.Message, "--network=private") {
				t.Errorf("%+v: the refusal has no remedy: %s", test, result.Refused.Message)
			}
			continue
		}
		if job, _ := s.View().Job(result.JobID); job.Spec.Network != test.want {
			t.Errorf("%+v: it has %v", test, job.Spec.Network)
		}
	}
}

// TestNetworkIsKept: a job keeps what it was accepted with. One that shares the
// node's network does not start where that is not allowed any more, says so, and
// does once it is changed; nor can it be moved to such a partition.
func TestNetworkIsKept(t *testing.T) {
	s := New()
	applyCommand(t, s, gpuNode("n1", 0), RequestID{}, 1)
	applyCommand(t, s, ApplyPolicy{Policy: *networked(t, "host")}, RequestID{}, 1)
	script := []byte("#!/bin/sh\n")
	id := submitJob(t, s, &pb.JobSpec{Script: script, MemoryPerCpuBytes: 1, Partitions: []string{"site"}}, &pb.Identity{Uid: 7})
	array := submitJob(t, s, &pb.JobSpec{Script: script, MemoryPerCpuBytes: 1, Partitions: []string{"open", "site"}, Array: &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 1, Last: 2, Step: 1}}}}, &pb.Identity{Uid: 7})

	update := func(job uint32, change JobChange) string {
		result := applyCommand(t, s, UpdateJobs{Targets: []Target{{Job: job}}, UID: 7, Change: change}, RequestID{}, 1)
		return result.Jobs[0].Message
	}
	for _, partitions := range [][]string{{"closed"}, {"open", "closed"}} {
		if refused := update(id, JobChange{Partitions: partitions}); !strings.Contains(refused, "Network=private") {
			t.Errorf("moved to %v: %q", partitions, refused)
		}
	}
	applyCommand(t, s, ApplyPolicy{Policy: *networked(t, "private-only")}, RequestID{}, 1)
	snapshot := s.View().SchedSnapshot(1)
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	if len(plan.Reasons) != 1 || uint32(plan.Reasons[0].Job) != id || !strings.Contains(explain.Sentence(plan.Reasons[0], snapshot), "Network=private") {
		t.Fatalf("plan: %+v", plan)
	}
	for _, start := range plan.Starts {
		if name := snapshot.Partitions[start.Partition].Name; uint32(start.Job) != array || name != "open" {
			t.Errorf("job %d starts in %s", start.Job, name)
		}
	}
	// Nor by a plan that was made before.
	order := StartOrder{Job: id, Partition: "site", Allocs: []AllocOrder{{Node: "n1", CPUs: []uint32{0}, MemoryBytes: 1, Tasks: 1}}}
	if result := applyCommand(t, s, PlaceJobs{Starts: []StartOrder{order}}, RequestID{}, 1); !strings.Contains(result.Starts[0].Dropped, "network") {
		t.Fatalf("started: %+v", result.Starts)
	}
	if job, _ := s.View().Job(id); job.Spec.Network != host {
		t.Errorf("it has %v now", job.Spec.Network)
	}
	own := private
	if refused := update(id, JobChange{Network: &own, Partitions: []string{"closed"}}); refused != "" {
		t.Fatalf("not changed: %s", refused)
	}
	shared := host
	if refused := update(id, JobChange{Network: &shared}); !strings.Contains(refused, "closed") {
		t.Errorf("changed back: %q", refused)
	}
	order.Partition = "closed"
	if result := applyCommand(t, s, PlaceJobs{Starts: []StartOrder{order}}, RequestID{}, 1); result.Starts[0].Dropped != "" {
		t.Fatalf("not started: %+v", result.Starts)
	}
	if refused := update(id, JobChange{Network: &own}); !strings.Contains(refused, "Network can be changed only of jobs that wait") {
		t.Errorf("changed while it runs: %q", refused)
	}
}

// TestNetworkOfAnImage: a job that resumes from an image keeps its network. Where that
// is not allowed any more it waits, is not moved, and says what is true of it.
func TestNetworkOfAnImage(t *testing.T) {
	s := New()
	for _, name := range []string{"n1", "n2"} {
		applyCommand(t, s, gpuNode(name, 0), RequestID{}, 1)
	}
	applyCommand(t, s, ApplyPolicy{Policy: *networked(t, "host")}, RequestID{}, 1)
	id := submitJob(t, s, &pb.JobSpec{Script: []byte("#!/bin/sh\n"), MemoryPerCpuBytes: 1, Partitions: []string{"site"}, Requeue: true}, &pb.Identity{Uid: 7})
	order := StartOrder{Job: id, Partition: "site", Allocs: []AllocOrder{{Node: "n1", CPUs: []uint32{0}, MemoryBytes: 1, Tasks: 1}}}
	applyCommand(t, s, PlaceJobs{Starts: []StartOrder{order}}, RequestID{}, 1)
	alloc := AllocRef{id, 1, "n1"}
	applyCommand(t, s, AllocsReady{Allocs: []AllocRef{alloc}}, RequestID{}, 1)
	applyCommand(t, s, SaveJobs{Targets: []Target{{Job: id}}, UID: 7, Purpose: SaveAsked}, RequestID{}, 1)
	applyCommand(t, s, AllocsSaved{Reports: []SaveReport{SaveReportFromMessage("n1", &pb.AllocSaved{
		Alloc: &pb.AllocId{Job: id, Epoch: 1}, Number: 1, Image: &pb.Image{Digest: []byte(strings.Repeat("d", 32)), Node: "n1", Bytes: 1},
	})}}, RequestID{}, 1)
	applyCommand(t, s, ApplyPolicy{Policy: *networked(t, "private-only")}, RequestID{}, 1)

	moved := applyCommand(t, s, SaveJobs{Targets: []Target{{Job: id}}, UID: 7, Purpose: SaveMove}, RequestID{}, 1)
	if said := moved.Jobs[0].Message; !strings.Contains(said, "none of its partitions allows") || !strings.Contains(said, "gcontrol requeue") {
		t.Errorf("moved: %q", said)
	}
	applyCommand(t, s, AllocsEnded{Reports: []AllocReport{{Job: id, Epoch: 1, Node: "n1", Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}}}, RequestID{}, 1)
	told := NodeReports{Restorable: func(*Job, *Image) []string { return []string{"n1", "n2"} }}
	snapshot := s.View().SchedSnapshotWith(1, told)
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	if len(plan.Starts) != 0 || len(plan.Reasons) != 1 || explain.Display(plan.Reasons[0], snapshot) != "PartitionConfig" || !strings.Contains(explain.Sentence(plan.Reasons[0], snapshot), "gcontrol requeue") {
		t.Fatalf("plan: %+v", plan)
	}
	// What the sentence says works.
	applyCommand(t, s, RequeueJobs{Targets: []Target{{Job: id}}, UID: 7}, RequestID{}, 1)
	own := private
	if changed := applyCommand(t, s, UpdateJobs{Targets: []Target{{Job: id}}, UID: 7, Change: JobChange{Network: &own}}, RequestID{}, 1); changed.Jobs[0].Code != OK {
		t.Fatalf("not changed: %+v", changed.Jobs)
	}
	snapshot = s.View().SchedSnapshotWith(1, told)
	if plan, _ := sched.Schedule(snapshot, sched.Memo{}); len(plan.Starts) != 1 {
		t.Errorf("plan: %+v", plan)
	}
}

// TestNetworkRulesAreRead: unknown ones are refused, with those there are; what
// changes is shown.
func TestNetworkRulesAreRead(t *testing.T) {
	for _, where := range []string{"site", "partition"} {
		message := policy.Message(policy.Default())
		if where == "site" {
			message.Network = "privat"
		} else {
			message.Partitions[0].Network = "privat"
		}
		if _, err := policy.Normalize(policy.FromMessage(message)); err == nil || !strings.Contains(err.Error(), "host, private, private-only") {
			t.Errorf("%s: %v", where, err)
		}
	}
	var paths []string
	for _, change := range policy.Diff(networked(t, ""), networked(t, "private-only")) {
		paths = append(paths, change.Path+" "+change.Before+" "+change.After)
	}
	if len(paths) != 1 || paths[0] != "network host private-only" {
		t.Errorf("differs: %v", paths)
	}
	for _, rule := range []string{"private", "private-only"} {
		site := networked(t, rule)
		again, err := policy.Normalize(policy.FromMessage(policy.Message(site)))
		if err != nil || len(policy.Diff(site, again)) > 0 || again.SiteNetwork().String() != rule {
			t.Errorf("%s came back as %v: %v", rule, again.SiteNetwork(), err)
		}
	}
}
