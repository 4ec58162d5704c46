package api

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// TestListsAreCutBySize: whoever submits jobs with long arguments, or a node
// that has much to tell, does not make a list fail for everybody.
func TestListsAreCutBySize(t *testing.T) {
	l := &ledger{t: t, state: machinesOf(t, 40), sessions: session.NewRegistry(func(string) {})}
	s := NewServer(l, l, Options{}).users
	job := goodSpec()
	job.MemoryPerNodeBytes = 1 << 20
	job.Arguments = []string{strings.Repeat("x", spec.MaxArgumentBytes-100)}
	command, err := state.SubmitFromSpec(job, &pb.Identity{Uid: fuzzUser, User: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	for range 80 {
		if result, err := l.Propose(context.Background(), command, state.RequestID{}); err != nil || result.Refused != nil {
			t.Fatal(err, result.Refused)
		}
	}
	text := strings.Repeat("z", bounds.MaxTextBytes)
	for n := range 40 {
		note := state.NoteLeftOvers{Name: fmt.Sprintf("n%04d", n)}
		for range bounds.MaxLeftOvers {
			note.LeftOvers = append(note.LeftOvers, state.LeftOver{What: text, Error: text})
		}
		if result, err := l.Propose(context.Background(), note, state.RequestID{}); err != nil || result.Refused != nil {
			t.Fatal(err, result.Refused)
		}
	}
	ctx := callerContext(1, "", "", "")
	if err := s.ListJobs(&pb.ListJobsRequest{}, &sink[pb.ListJobsResponse, *pb.ListJobsResponse]{t: t, ctx: ctx}); err != nil {
		t.Error(err)
	}
	if err := s.ListNodes(&pb.ListNodesRequest{}, &sink[pb.ListNodesResponse, *pb.ListNodesResponse]{t: t, ctx: ctx}); err != nil {
		t.Error(err)
	}
}

// TestTargetsAreNamedOnce: what would take minutes to sort out is refused.
func TestTargetsAreNamedOnce(t *testing.T) {
	l := &ledger{t: t, state: machinesOf(t, 1)}
	s := NewServer(l, l, Options{}).users
	all := []*pb.ArrayRange{{First: 0, Last: spec.MaxArrayIndex, Step: 1}}
	var twice []*pb.ArrayTasks
	for job := range uint32(1000) {
		twice = append(twice, &pb.ArrayTasks{Job: 1 + job%500, Ranges: all})
	}
	for name, tasks := range map[string][]*pb.ArrayTasks{
		"overlapping": {{Job: 1, Ranges: append(all, all...)}},
		"backwards":   {{Job: 1, Ranges: []*pb.ArrayRange{{First: 5, Last: 5, Step: 1}, {First: 1, Last: 1, Step: 1}}}},
		"twice":       twice,
	} {
		if _, err := s.targets(&caller{isUser: true}, nil, tasks); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	task := uint32(3)
	targets, err := s.targets(&caller{isUser: true}, &pb.JobFilter{Ids: []*pb.JobId{{Job: 1, ArrayTask: &task}, {Job: 2}, {Job: 2}}}, []*pb.ArrayTasks{{Job: 1, Ranges: all}})
	if err != nil || len(targets) != 2 || len(targets[0].Tasks) != 1 || targets[1].Job != 2 {
		t.Errorf("%v, %v", targets, err)
	}
}

// TestFollowersIDs: an id covers its job, or the tasks of its array.
func TestFollowersIDs(t *testing.T) {
	one, two := uint32(1), uint32(2)
	f, err := newFilter(&pb.JobFilter{Ids: []*pb.JobId{{Job: 7}, {Job: 8, ArrayTask: &one}, {Job: 9, ArrayTask: &two}, {Job: 9}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		job  state.Job
		want bool
	}{
		{state.Job{ID: 7}, true}, {state.Job{ID: 70, Array: 7, HasTask: true, Task: 5}, true}, {state.Job{ID: 6}, false},
		{state.Job{ID: 80, Array: 8, HasTask: true, Task: 1}, true}, {state.Job{ID: 81, Array: 8, HasTask: true, Task: 2}, false},
		{state.Job{ID: 8, Array: 8, Tasks: []ranges.Range{{First: 0, Last: 4, Step: 1}}}, true},
		{state.Job{ID: 8, Array: 8, Tasks: []ranges.Range{{First: 2, Last: 4, Step: 2}}}, false},
		{state.Job{ID: 8}, false}, {state.Job{ID: 90, Array: 9, HasTask: true, Task: 7}, true},
	} {
		if got := f.idsCover(&c.job); got != c.want {
			t.Errorf("%+v: %v", c.job, got)
		}
	}
}

// TestFiltersAreBounded: what chooses jobs is kept for as long as its request lasts, and that
// of those who follow for days.
func TestFiltersAreBounded(t *testing.T) {
	l := &ledger{t: t, state: machinesOf(t, 1)}
	s := NewServer(l, l, Options{}).users
	follow := func(filter *pb.JobFilter) error {
		ctx, cancel := context.WithCancel(callerContext(1, "", "", ""))
		cancel()
		return s.Follow(&pb.FollowRequest{Filter: filter}, &sink[pb.Event, *pb.Event]{t: t, ctx: ctx})
	}
	for name, filter := range map[string]*pb.JobFilter{
		"users": {Users: make([]string, spec.MaxJobTargets), Names: []string{"x"}},
		"uids":  {Uids: make([]uint32, spec.MaxJobTargets+1)},
		"nodes": {Nodes: make([]string, spec.MaxJobTargets+1)},
	} {
		if _, err := newFilter(filter); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, filter := range map[string]*pb.JobFilter{
		"many": {Uids: make([]uint32, maxFollowedValues+1)},
		"long": {Names: []string{strings.Repeat("x", maxFollowedBytes)}},
	} {
		if err := follow(filter); status.Code(err) != codes.InvalidArgument {
			t.Errorf("followed by %s: %v", name, err)
		}
	}
	if err := follow(&pb.JobFilter{Uids: make([]uint32, maxFollowedValues)}); status.Code(err) == codes.InvalidArgument {
		t.Error(err)
	}
}

// TestFilterByQOS: a job without a QOS is one of normal, and what this program
// does not know to choose by chooses nothing.
func TestFilterByQOS(t *testing.T) {
	f, err := newFilter(&pb.JobFilter{Qos: []string{"normal", "low"}})
	if err != nil || f.empty() || !f.conditional() {
		t.Fatal(f, err)
	}
	for qos, want := range map[string]bool{"": true, "normal": true, "low": true, "high": false} {
		if got := f.matchesRest(&state.Job{Spec: &state.Spec{QOS: qos}}); got != want {
			t.Errorf("a job of QOS %q: %v", qos, got)
		}
	}
	newer := &pb.JobFilter{Users: []string{"ada"}}
	newer.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 4711, protowire.VarintType), 1))
	if _, err := newFilter(newer); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("a condition of a newer program: %v", err)
	}
}

func TestRefusalsArePlain(t *testing.T) {
	text := status.Convert(invalid("%s", "\x1b[2J\n"+strings.Repeat("é\u009b", 1<<16))).Message()
	if len(text) > maxRefusalBytes+8 || bytes.ContainsAny([]byte(text), "\x1b\u009b") || !strings.HasPrefix(text, "?[2J\né?") {
		t.Errorf("%d bytes: %.40q", len(text), text)
	}
}
