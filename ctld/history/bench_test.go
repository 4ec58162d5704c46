package history

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// benchRows are runs of 50 users, one a second.
func benchRows(b *testing.B, from, count int, nowMS int64) []Row {
	b.Helper()
	rows := make([]Row, count)
	for i := range rows {
		n := from + i
		endMS := nowMS - int64(1_000_000-n)*1000
		run := &pb.PastRun{RanMs: 5000, Job: &pb.Job{
			Id: &pb.JobId{Job: uint32(n + 1)}, State: pb.JobState_JOB_STATE_COMPLETED, Reason: "None", Partition: "main", NodeList: "node0123", BatchHost: "node0123",
			Cpus: 4, Nodes: 1, SubmitMs: endMS - 9000, EligibleMs: endMS - 9000, StartMs: endMS - 5000, EndMs: endMS, TimeLimitS: 3600, Priority: 12345,
			Owner: &pb.Identity{Uid: uint32(1000 + n%50), Gid: 1000, User: fmt.Sprint("user", n%50), Group: "users"},
			Spec: &pb.JobSpec{Name: "train", Account: fmt.Sprint("lab", n%10), Qos: "normal", Partitions: []string{"main"}, WorkDirectory: "/home/user/project", StandardOutput: "slurm-%j.out",
				CpusPerTask: 4, MemoryPerNodeBytes: 16 << 30, Command: "/home/user/project/train.sh"},
			Allocation: []*pb.NodeAllocation{{Node: "node0123", MemoryBytes: 16 << 30, Tasks: 1, Devices: []*pb.AllocatedDevice{{Shares: 1, Model: "a100"}}}},
			Usage:      &pb.Usage{PeakMemoryBytes: 5 << 30, CpuNs: 123456789},
		}}
		raw, err := proto.Marshal(run)
		if err != nil {
			b.Fatal(err)
		}
		rows[i] = Row{At: state.Position(n+1) << 20, Run: raw}
	}
	return rows
}

// BenchmarkPut: how many runs a second are taken, 1000 in a transaction that is synced.
func BenchmarkPut(b *testing.B) {
	database, err := OpenSQLite(filepath.Join(b.TempDir(), "history.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer database.Close()
	rows := benchRows(b, 0, 1000, time.Now().UnixMilli())
	next := state.Position(0)
	for b.Loop() {
		for i := range rows {
			next += 1 << 20
			rows[i].At = next
		}
		if err := database.Put(context.Background(), 0, next, rows); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkLastWeek: a user's runs of the last week, among a million.
func BenchmarkLastWeek(b *testing.B) {
	database, err := OpenSQLite(filepath.Join(b.TempDir(), "history.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer database.Close()
	now := time.Now().UnixMilli()
	for from := 0; from < 1_000_000; from += 10_000 {
		rows := benchRows(b, from, 10_000, now)
		if err := database.Put(context.Background(), 0, rows[len(rows)-1].At, rows); err != nil {
			b.Fatal(err)
		}
	}
	found := 0
	for b.Loop() {
		found = 0
		err := database.Read(context.Background(), Choice{Users: []string{"user7"}, SinceMS: now - 7*24*3600*1000}, 1<<62, func(*Found) error { found++; return nil })
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(found), "runs")
}
