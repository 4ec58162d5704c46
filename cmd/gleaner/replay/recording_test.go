package replay

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// recording is of two nodes with four GPUs of two models, on which a wide job waits for
// two narrow ones, and narrow ones come after it.
func recording() *pb.Recording {
	r := &pb.Recording{
		TimeS: 10_000,
		Policy: &pb.Policy{
			Partitions: []*pb.Partition{{Name: "main", Nodes: "ALL", Up: true, MaxTimeS: 1 << 20}},
			Scheduler:  &pb.SchedulerPolicy{Type: "builtin"},
		},
		Nodes: []*pb.RecordedNode{
			{Name: "n1", Cpus: 16, MemoryBytes: 1 << 36, Gpus: []string{"a100", "a100"}},
			{Name: "n2", Cpus: 16, MemoryBytes: 1 << 36, Gpus: []string{"h100", "h100"}},
		},
		Accounts: []*pb.RecordedAccount{{Name: "root"}, {Name: "vision", Parent: "root"}, {Name: "robots", Parent: "vision"}},
	}
	add := func(account, model string, eligible, ran, limit, gpus uint32) {
		r.Runs = append(r.Runs, &pb.RecordedRun{
			JobId: uint32(len(r.Runs) + 1), EligibleS: eligible, StartS: eligible + 1, EndS: eligible + 1 + ran, RanS: ran, LimitS: limit, User: "ann",
			Account: account, Partition: "main", Model: model, Nodes: 1, Cpus: 1, Gpus: gpus, MemoryBytes: 1 << 30,
		})
	}
	add("robots", "a100", 100, 1000, 1200, 1)
	add("vision", "a100", 110, 500, 600, 2)
	for range 4 {
		add("robots", "a100", 120, 300, 310, 1)
	}
	add("vision", "h100", 130, 300, 310, 1)
	return r
}

func quiet(string, int, int) error { return nil }

func TestCompare(t *testing.T) {
	recorded, err := FromRecording(recording())
	if err != nil || len(recorded.Jobs) != 7 || recorded.LeftOut != 0 || recorded.Cluster.Processors != 4 {
		t.Fatalf("%+v, %v", recorded, err)
	}
	other := proto.Clone(recorded.Policy).(*pb.Policy)
	other.Scheduler = &pb.SchedulerPolicy{Type: "backfill", BfJobPartCountReserve: 1}
	results, err := Compare(recorded, "this policy", other, quiet)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	PrintReplay(&out, recorded, results)
	for _, want := range []string{"Replayed: 7 runs since 1970-01-01T00:01:40Z", "in force ", "\nACCOUNT ", "\nGPU_MODEL ", "\na100 ", "\nrobots ", "Under this policy 0 jobs wait longer and "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "warning") {
		t.Errorf("nobody waits longer, and there is a warning:\n%s", out.String())
	}
	// The other way round, robots waits longer, and its p95 says so.
	recorded.Policy, other = other, recorded.Policy
	if results, err = Compare(recorded, "this policy", other, quiet); err != nil {
		t.Fatal(err)
	}
	worse := Worse(results[0], results[1])
	if len(worse) != 1 && len(worse) != 2 || !strings.Contains(printed(recorded, results), "warning: robots would have waited longer: 95 of 100 jobs up to ") {
		t.Errorf("%+v\n%s", worse, printed(recorded, results))
	}
	if _, err := Compare(recorded, "x", other, func(string, int, int) error { return errors.New("stop") }); err == nil || err.Error() != "stop" {
		t.Errorf("it did not stop: %v", err)
	}
}

func printed(recorded *Recorded, results []*sim.Result) string {
	var out bytes.Buffer
	PrintReplay(&out, recorded, results)
	return out.String()
}

// TestOwnersOfRecording: jobs of an owner and of the accounts below it go first on its
// nodes; a policy that gives these to another account changes who waits.
func TestOwnersOfRecording(t *testing.T) {
	r := recording()
	r.Policy.Owners = []*pb.Owner{{Account: "vision", Nodes: "n1"}}
	recorded, err := FromRecording(r)
	if err != nil {
		t.Fatal(err)
	}
	owners := recorded.Cluster.Owners
	if len(owners) != 1 || len(owners[0].Nodes) != 1 || len(owners[0].Below) != 1 || owners[0].Below[0] != "robots" {
		t.Errorf("owners %+v", owners)
	}
}

// TestLeftOut: a job for which there are no nodes is left out and counted.
func TestLeftOut(t *testing.T) {
	r := recording()
	r.Runs[1].Gpus = 3
	r.Runs[2].Partition = "gone"
	r.Runs[3].Model = "b200"
	recorded, err := FromRecording(r)
	if err != nil || recorded.LeftOut != 3 || len(recorded.Jobs) != 4 {
		t.Fatalf("%+v, %v", recorded, err)
	}
	none := &pb.Policy{Partitions: []*pb.Partition{{Name: "other", Nodes: "ALL", Up: true}}}
	if _, err := Compare(recorded, "this", none, quiet); err == nil || !strings.Contains(err.Error(), "none of the jobs") {
		t.Errorf("a policy without their partition: %v", err)
	}
}

// TestUnfinished: what runs is taken to run as long again, and what waits as long as its
// user's last two.
func TestUnfinished(t *testing.T) {
	r := recording()
	r.Runs = append(r.Runs,
		&pb.RecordedRun{JobId: 50, EligibleS: 5000, StartS: 5001, RanS: 400, LimitS: 700, User: "ann", Partition: "main", Nodes: 1, Cpus: 1, Gpus: 1},
		&pb.RecordedRun{JobId: 51, EligibleS: 6000, LimitS: 7000, User: "ann", Partition: "main", Nodes: 1, Cpus: 1, Gpus: 1, Count: 3},
		&pb.RecordedRun{JobId: 52, EligibleS: 7000, LimitS: 7000, User: "bob", Partition: "main", Nodes: 1, Cpus: 1, Gpus: 1})
	recorded, err := FromRecording(r)
	if err != nil || len(recorded.Jobs) != 12 {
		t.Fatalf("%d jobs, %v", len(recorded.Jobs), err)
	}
	want := map[uint32]int64{50: 700, 51: 300, 52: 7000}
	for _, job := range recorded.Jobs {
		if runS, about := want[job.ID]; about && job.RunS != runS {
			t.Errorf("job %d runs %d s, want %d", job.ID, job.RunS, runS)
		}
	}
}

func TestNotReplayed(t *testing.T) {
	got := NotReplayed([]*pb.PolicyChange{{Path: "scheduler.type"}, {Path: "priority.weight_fair_share"}, {Path: "partitions.main.max_time"}, {Path: "partitions.main.allow_groups"}, {Path: "lease"}})
	if strings.Join(got, " ") != "priority.weight_fair_share partitions.main.allow_groups lease" {
		t.Errorf("%q", got)
	}
}

func TestParseLending(t *testing.T) {
	got, err := ParseLending("isolated,kill", "park=7,notice=20")
	if err != nil || len(got) != 2 || got[1].Name != "kill" || got[1].ParkS != 7 || got[0].NoticeS != 20 || got[0].RestoreS != 30 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range [][2]string{{"shared", ""}, {"park,park", ""}, {"park,", ""}, {"park", "park=-1"}, {"park", "park=99999999"}, {"park", "lunch=3"}, {"park", "park"}} {
		if got, err := ParseLending(c[0], c[1]); err == nil || !strings.Contains(err.Error(), "--lending") {
			t.Errorf("%q: %+v, %v", c, got, err)
		}
	}
}

// FuzzRecording: whatever a recording says, it is refused, or can be replayed.
func FuzzRecording(f *testing.F) {
	text, _ := proto.Marshal(recording())
	f.Add(text)
	r := recording()
	r.Policy.Owners = []*pb.Owner{{Account: "vision", Nodes: "n[1-2]"}}
	r.Runs[2].Nodes, r.Runs[3].RanS, r.Runs[4].LimitS = 2, 1<<31, 0
	text, _ = proto.Marshal(r)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var r pb.Recording
		if proto.Unmarshal(text, &r) != nil || len(r.GetRuns()) > 50 || len(r.GetNodes()) > 50 {
			return
		}
		for _, run := range r.Runs {
			run.Count %= 10
		}
		recorded, err := FromRecording(&r)
		if err != nil {
			return
		}
		results, err := Compare(recorded, "this policy", recorded.Policy, quiet)
		if err == nil {
			_ = printed(recorded, results)
		}
	})
}
