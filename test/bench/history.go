package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/history"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// The runs that are over: one a second, of users in turn, so that one of them has had
// some twelve thousand in the last week if there are a million.
const (
	pastUsers = 50
	pastSince = 7 * 24 * time.Hour
)

// historyRows are those of what is long over. There is no counterpart: Slurm keeps that in
// a database of its own.
func historyRows(s sizes) []row {
	return []row{{historyWeek, fmt.Sprintf("history: gacct of a user's last week, among %s runs", thousands(float64(s.pastRuns), 0)), "ms", 1}}
}

// historyAims judge the row.
func (t *table) historyAims() []aim {
	const most = 100 // milliseconds
	a := aim{What: fmt.Sprintf("a user's last week among a million runs in less than %d ms", most)}
	if f := t.figures(historyWeek, ours); f != nil {
		a.Figure, a.Reached, a.Measured = fmt.Sprintf("%.1f ms", f.Median), f.Median < most, true
	}
	return []aim{a}
}

// history measures from the start of gacct to its end, with all its lines.
func (b *bench) history(ctx context.Context) {
	measures := []measure{historyWeek}
	own := side{ours, func(ctx context.Context, directory string) (system, error) {
		if err := fillHistory(ctx, filepath.Join(directory, "gctld"), b.sizes.pastRuns); err != nil {
			return nil, err
		}
		return b.sides[0].start(ctx, directory)
	}}
	b.on(ctx, own, "history", measures, func(ctx context.Context, on system) error {
		for round := range b.sizes.pastRounds {
			begin := time.Now()
			lines, err := run(ctx, on, historyVerb, "-n", "-X", "-u", "user7", "-S", "now-7days")
			if err != nil {
				return err
			}
			took := milliseconds(time.Since(begin))
			if found, want := strings.Count(lines, "\n"), weekOf(b.sizes.pastRuns); found > want || found < want*9/10 { // the week has gone on since
				return fmt.Errorf("gacct prints %d runs of the last week, and should about %d", found, want)
			}
			b.table.add(round, historyWeek, ours, took)
		}
		return nil
	})
}

// weekOf is how many runs a user has had in the last week.
func weekOf(runs int) int { return min(runs, int(pastSince/time.Second)) / pastUsers }

// fillHistory makes the database of a controller that has not started yet.
func fillHistory(ctx context.Context, directory string, runs int) (err error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	database, err := history.OpenSQLite(filepath.Join(directory, "history.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	const atOnce = 10_000
	nowMS, through := time.Now().UnixMilli(), state.Position(0)
	for from := 0; from < runs; from += atOnce {
		rows := make([]history.Row, min(atOnce, runs-from))
		for i := range rows {
			n := from + i
			raw, err := proto.Marshal(pastRun(n, nowMS-int64(runs-n)*1000))
			if err != nil {
				return err
			}
			rows[i] = history.Row{At: state.EndOf(0) + 1 + state.Position(n), Run: raw} // as if of the log's first entry
		}
		last := rows[len(rows)-1].At
		if err := database.Put(ctx, through, last, rows); err != nil {
			return err
		}
		through = last
	}
	return nil
}

func pastRun(n int, endMS int64) *pb.PastRun {
	user := fmt.Sprint("user", n%pastUsers)
	return &pb.PastRun{RanMs: 5000, Job: &pb.Job{
		Id: &pb.JobId{Job: uint32(n + 1)}, State: pb.JobState_JOB_STATE_COMPLETED, Reason: "None", Partition: "main", NodeList: "node0123", BatchHost: "node0123",
		Cpus: 4, Nodes: 1, SubmitMs: endMS - 9000, EligibleMs: endMS - 9000, StartMs: endMS - 5000, EndMs: endMS, TimeLimitS: 3600, Priority: 12345,
		Owner: &pb.Identity{Uid: uint32(1000 + n%pastUsers), Gid: 1000, User: user, Group: "users"},
		Spec: &pb.JobSpec{Name: "train", Account: fmt.Sprint("lab", n%10), Qos: "normal", Partitions: []string{"main"}, WorkDirectory: "/home/" + user + "/project", StandardOutput: "slurm-%j.out",
			CpusPerTask: 4, MemoryPerNodeBytes: 16 << 30, Command: "/home/" + user + "/project/train.sh"},
		Allocation: []*pb.NodeAllocation{{Node: "node0123", MemoryBytes: 16 << 30, Tasks: 1, Devices: []*pb.AllocatedDevice{{Shares: 1, Model: "a100"}}}},
		Usage:      &pb.Usage{PeakMemoryBytes: 5 << 30, CpuNs: 123456789},
	}}
}
