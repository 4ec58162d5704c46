package acct

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestColumnsNeedNoMoreThanTheyAskFor: of a run that has only the fields that are asked for,
// each line has each word that it has of the whole run.
func TestColumnsNeedNoMoreThanTheyAskFor(t *testing.T) {
	view := show.NewView(func(string) string { return "" }, time.UnixMilli(1_800_700_000_000))
	for _, run := range differentRuns() {
		for i := range columns {
			if columns[i].of == nil || strings.Contains(empty, columns[i].name) {
				continue
			}
			asked := (&choice{}).fields([]string{columns[i].name})
			whole, part := past.Rows(run), past.Rows(prototest.Only(run, append(asked, "steps")))
			if len(whole) != len(part) {
				t.Fatalf("%d lines of %v, and %d of the whole run", len(part), asked, len(whole))
			}
			for n := range whole {
				got, want := columns[i].text(&row{Row: part[n], view: view}), columns[i].text(&row{Row: whole[n], view: view})
				if got != want {
					t.Fatalf("%s of line %d is %q of %v, and %q of the whole run %v", columns[i].name, n, got, asked, want, run)
				}
			}
		}
	}
}

// differentRuns have different values in all fields, but differ in those that decide which
// others count.
func differentRuns() (runs []*pb.PastRun) {
	const (
		live = 1 << iota
		requeued
		waiting
		alone
		unstarted
		unsignalled
		cancelled
		all
	)
	for _, state := range []pb.JobState{
		pb.JobState_JOB_STATE_PENDING, pb.JobState_JOB_STATE_RUNNING, pb.JobState_JOB_STATE_COMPLETED, pb.JobState_JOB_STATE_FAILED, pb.JobState_JOB_STATE_CANCELLED, pb.JobState_JOB_STATE_TIMEOUT,
	} {
		for kind := range all {
			run := &pb.PastRun{Live: kind&live != 0, Requeued: kind&requeued != 0, RanMs: 600_000, Job: &pb.Job{
				Id: &pb.JobId{Job: 17}, ArrayJobId: 12, State: state, Reason: "JobHeldUser", Partition: "main", NodeList: "n[1-2]", BatchHost: "n1", Cpus: 4, Nodes: 2, Priority: 77,
				SubmitMs: 1_800_000_000_000, EligibleMs: 1_800_000_060_000, StartMs: 1_800_000_120_000, EndMs: 1_800_001_120_000, TimeLimitS: 3660, ExitCode: 3, ExitSignal: 15, RestartCount: 5,
				Owner: &pb.Identity{Uid: 1007, Gid: 1008, User: "alice", Group: "users"}, Usage: &pb.Usage{PeakMemoryBytes: 5 << 30, CpuNs: 123_456_789_000},
				Spec:       &pb.JobSpec{Name: "train", Account: "lab7", Qos: "high", Comment: "why", Constraint: "fast", WorkDirectory: "/home/alice", Partitions: []string{"a", "b"}, Wckey: "w"},
				Allocation: []*pb.NodeAllocation{{Node: "n1", Tasks: 2}, {Node: "n2", Tasks: 1}},
			}}
			run.Steps = []*pb.NodeSteps{{Node: "n1", Steps: []*pb.StepPart{{Step: 0, Name: "one", Tasks: 2, Cpus: 2, StartMs: 1_800_000_130_000, EndMs: 1_800_000_140_000, ExitCode: 1}, {Step: 1, Name: "two", StartMs: 1_800_000_150_000}}}}
			job := run.Job
			if kind&waiting != 0 {
				job.WaitingTasks = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 3, Last: 9, Step: 1}}, MaxRunning: 2}
			} else if kind&alone == 0 {
				job.Id.ArrayTask = proto.Uint32(4)
			}
			if kind&alone != 0 {
				job.ArrayJobId = 0
			}
			if kind&unstarted != 0 {
				job.StartMs = 0
			}
			if kind&unsignalled != 0 {
				job.ExitSignal = 0
			}
			if kind&cancelled != 0 {
				job.CancelledByUid = proto.Uint32(1007)
			}
			runs = append(runs, run)
		}
	}
	return runs
}

// TestFieldsOfAnAnswer: what the whole answer needs is asked for too, and all of it if a
// column shows more.
func TestFieldsOfAnAnswer(t *testing.T) {
	if of := (&choice{groups: []string{"users"}, states: map[string]bool{"FAILED": true}}).fields([]string{"User"}); !slices.Contains(of, "job.owner.gid") || !slices.Contains(of, "job.submit_ms") || !slices.Contains(of, "job.owner.user") {
		t.Error(of)
	}
	if of := (&choice{}).fields([]string{"JobID", "AllocTRES"}); of != nil {
		t.Error(of)
	}
	if of := (&choice{targets: show.JobTargets{{Job: 1}}}).fields([]string{"JobID"}); of != nil {
		t.Error(of)
	}
}
