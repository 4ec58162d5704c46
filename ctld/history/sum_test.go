package history

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// someRuns are different ones, of which some cannot be added up by their columns. Their
// times lie around those that are asked for.
func someRuns(t *testing.T, count int) (rows []Row) {
	t.Helper()
	random := rand.New(rand.NewPCG(5, 6))
	for i := range count {
		start := 1_000_000 + random.Int64N(1_000_000)
		job := &pb.Job{
			Id: &pb.JobId{Job: uint32(i + 1)}, Cpus: 1 + random.Uint32N(64), Nodes: 1 + random.Uint32N(3), StartMs: start, EligibleMs: start - random.Int64N(5000), EndMs: start + random.Int64N(400_000),
			Owner: &pb.Identity{Uid: 1000, User: fmt.Sprint("u", random.IntN(3))}, Spec: &pb.JobSpec{Account: fmt.Sprint("a", random.IntN(2))},
		}
		run := &pb.PastRun{Job: job, RanMs: job.EndMs - job.StartMs}
		if random.IntN(3) == 0 {
			run.RanMs = random.Int64N(max(run.RanMs, 1))
		}
		node := &pb.NodeAllocation{Node: "n1", MemoryBytes: random.Uint64N(1 << 50)}
		for range random.IntN(3) {
			node.Devices = append(node.Devices, &pb.AllocatedDevice{Model: []string{"a100", "h100", ""}[random.IntN(3)]})
		}
		job.Allocation = append(job.Allocation, node, &pb.NodeAllocation{Node: "n2", MemoryBytes: 3 << 20})
		switch random.IntN(12) {
		case 0:
			run.Borrowed = []*pb.Borrowed{{Owner: "lab", Cpus: 2}}
		case 1:
			job.StartMs, job.Allocation = 0, nil
		case 2:
			job.Allocation = nil
		case 3:
			run = &pb.PastRun{Event: &pb.NodeEvent{Node: "n1", StartMs: start, EndMs: start + 1000}}
		}
		raw, err := proto.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, Row{At: state.Position(i + 1), Run: raw})
	}
	return rows
}

const sumsSince, sumsUntil = 1_300_000, 1_900_000

// inside is how long a run ran in that time.
func inside(run *pb.PastRun) int64 {
	start, end := run.Job.StartMs, run.Job.EndMs
	ms := min(end, sumsUntil) - max(start, sumsSince)
	if start == 0 || ms <= 0 {
		return 0
	}
	if run.RanMs < end-start {
		ms = int64(float64(ms) * float64(run.RanMs) / float64(end-start))
	}
	return ms
}

// addTo adds one run to sums.
func addTo(sums map[string]*pb.RunSum, run *pb.PastRun) {
	job, ms := run.Job, uint64(inside(run))
	if ms == 0 {
		return
	}
	one := &pb.RunSum{Account: job.Spec.Account, User: job.Owner.User, CpuMs: uint64(job.Cpus) * ms, NodeMs: uint64(job.Nodes) * ms}
	memory := uint64(0)
	for _, node := range job.Allocation {
		memory += node.MemoryBytes
		for _, device := range node.Devices {
			one.Model = device.Model
			one.GpuMs += ms
		}
	}
	one.MemoryMibMs = memory >> 20 * ms
	of := nameOf(one)
	if sums[of] == nil {
		sums[of] = &pb.RunSum{Account: one.Account, User: one.User, Model: one.Model}
	}
	sums[of].CpuMs += one.CpuMs
	sums[of].MemoryMibMs += one.MemoryMibMs
	sums[of].NodeMs += one.NodeMs
	sums[of].GpuMs += one.GpuMs
}

func nameOf(sum *pb.RunSum) string { return sum.Account + " " + sum.User + " " + sum.Model }

func TestSumsAreThoseOfTheRuns(t *testing.T) { sumsAreThoseOfTheRuns(t, "") }

// sumsAreThoseOfTheRuns: sums, and the runs that are in none, have what all chosen runs used
// in the time, each run once.
func sumsAreThoseOfTheRuns(t *testing.T, url string) {
	k := newKeeperOf(t, newCluster(t), nil, url)
	mustWork(t, k)
	rows := someRuns(t, 3000)
	last := rows[len(rows)-1].At
	if err := k.database.Put(context.Background(), 0, last, rows); err != nil {
		t.Fatal(err)
	}
	k.through.Store(uint64(last))
	for _, choice := range []Choice{{}, {Users: []string{"u1"}}, {Accounts: []string{"a1"}, UIDs: []uint32{1000}}, {Users: []string{"nobody"}}} {
		choice.SinceMS, choice.UntilMS = sumsSince, sumsUntil
		through, apart := last-100, map[uint32]bool{}
		sums, reached, err := k.Sum(context.Background(), choice, through, runs(func(run *pb.PastRun) { apart[run.Job.Id.Job] = true }))
		if err != nil || reached != through {
			t.Fatal(reached, err)
		}
		want := map[string]*pb.RunSum{}
		if _, err := k.Read(context.Background(), choice, through, runs(func(run *pb.PastRun) {
			if !apart[run.Job.Id.Job] {
				addTo(want, run)
			}
		})); err != nil {
			t.Fatal(err)
		}
		if len(sums) != len(want) || choice.Users == nil && (len(sums) < 9 || len(apart) < 300 || len(apart) > 2000) {
			t.Fatalf("%+v: %d sums, want %d, and %d runs apart", choice, len(sums), len(want), len(apart))
		}
		slices.SortFunc(sums, func(a, b *pb.RunSum) int { return cmp.Compare(nameOf(a), nameOf(b)) })
		for _, sum := range sums {
			if !proto.Equal(sum, want[nameOf(sum)]) {
				t.Errorf("%+v: %v, want %v", choice, sum, want[nameOf(sum)])
			}
		}
	}
}

// TestOlderTablesAreSummed: runs that were there before there were columns for sums are
// given one by one, and those that come then are added up.
func TestOlderTablesAreSummed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	rows := someRuns(t, 200)
	database, err := OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := database.Put(context.Background(), 0, 100, rows[:100]); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"DROP INDEX runs_sums", "DROP INDEX runs_apart", "ALTER TABLE runs DROP COLUMN nodes", "ALTER TABLE runs DROP COLUMN memory_mib", "ALTER TABLE runs DROP COLUMN apart", "PRAGMA user_version = 1",
	} {
		if _, err := database.write.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := database.Close(); err != nil {
		t.Fatal(err)
	}
	if database, err = OpenSQLite(path); err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	if err := database.Put(context.Background(), 100, 200, rows[100:]); err != nil {
		t.Fatal(err)
	}
	sums, err := database.Sum(context.Background(), Choice{}, 1<<62)
	if err != nil || len(sums) == 0 {
		t.Errorf("%d sums: %v", len(sums), err)
	}
	old := 0
	if err := database.Read(context.Background(), Choice{Apart: true}, 1<<62, func(found *Found) error {
		if found.At <= 100 {
			old++
		}
		return nil
	}); err != nil || old < 80 {
		t.Errorf("%d runs of before: %v", old, err)
	}
}

// TestSumsReadTheirIndex: not the runs, which are many times as much.
func TestSumsReadTheirIndex(t *testing.T) {
	k := newKeeper(t, newCluster(t), nil)
	mustWork(t, k)
	sums, arguments := (&Choice{SinceMS: 5, UntilMS: 7}).sumQuestion(1 << 40)
	if plan := planOf(t, k, sums, arguments); plan != "SCAN runs USING COVERING INDEX runs_sums" {
		t.Error(plan)
	}
	rest, arguments := (&Choice{SinceMS: 5, UntilMS: 7, Apart: true}).question(1 << 40)
	if plan := planOf(t, k, rest, arguments); !strings.Contains(plan, "USING INDEX runs_apart") {
		t.Error(plan)
	}
}
