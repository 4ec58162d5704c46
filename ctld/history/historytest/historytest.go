// Package historytest fills databases of history, for benchmarks and tests.
//
// Contract: a database that Fill has made is one that a controller could have made: the
// same tables, indexes and rows, but in a fraction of the time.
package historytest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/history"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Users is how many users have had runs, in turn.
const Users = 50

// every is the time between the ends of two runs.
const every = time.Second

// WeekOf is how many of so many runs one user has had in the last week.
func WeekOf(runs int) int { return min(runs, int(7*24*time.Hour/every)) / Users }

// Run is one of those that Fill makes, with the time of its end.
func Run(n int, endMS int64) *pb.PastRun {
	user := fmt.Sprint("user", n%Users)
	return &pb.PastRun{RanMs: 5000, Job: &pb.Job{
		Id: &pb.JobId{Job: uint32(n + 1)}, State: pb.JobState_JOB_STATE_COMPLETED, Reason: "None", Partition: "main", NodeList: "node0123", BatchHost: "node0123",
		Cpus: 4, Nodes: 1, SubmitMs: endMS - 9000, EligibleMs: endMS - 9000, StartMs: endMS - 5000, EndMs: endMS, TimeLimitS: 3600, Priority: 12345,
		Owner: &pb.Identity{Uid: uint32(1000 + n%Users), Gid: 1000, User: user, Group: "users"},
		Spec: &pb.JobSpec{Name: "train", Account: fmt.Sprint("lab", n%10), Qos: "normal", Partitions: []string{"main"}, WorkDirectory: "/home/" + user + "/project", StandardOutput: "slurm-%j.out",
			CpusPerTask: 4, MemoryPerNodeBytes: 16 << 30, Command: "/home/" + user + "/project/train.sh"},
		Allocation: []*pb.NodeAllocation{{Node: "node0123", MemoryBytes: 16 << 30, Tasks: 1, Devices: []*pb.AllocatedDevice{{Shares: 1, Model: "a100"}}}},
		Usage:      &pb.Usage{PeakMemoryBytes: 5 << 30, CpuNs: 123456789},
	}}
}

// atOnce is how many runs are in a transaction: each of these waits for the disk.
const atOnce = 50_000

// Fill makes a database with so many runs: one a second, the last of which ended at a time.
// Its indexes are made at the end, which takes a tenth of keeping them.
func Fill(ctx context.Context, path string, runs int, endMS int64) (err error) {
	database, err := history.OpenSQLite(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	raw, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()+"?_cache_size=-200000&_busy_timeout=10000")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	indexes, err := dropIndexes(ctx, raw)
	if err != nil {
		return err
	}
	for from, through := 0, state.Position(0); from < runs; from += atOnce {
		rows := make([]history.Row, min(atOnce, runs-from))
		for i := range rows {
			n := from + i
			encoded, err := proto.Marshal(Run(n, endMS-int64(runs-1-n)*every.Milliseconds()))
			if err != nil {
				return err
			}
			rows[i] = history.Row{At: state.EndOf(0) + 1 + state.Position(n), Run: encoded} // as if of the log's first entry
		}
		last := rows[len(rows)-1].At
		if err := database.Put(ctx, through, last, rows); err != nil {
			return err
		}
		through = last
	}
	for _, statement := range indexes {
		if _, err := raw.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// dropIndexes drops all indexes, and returns how they are made.
func dropIndexes(ctx context.Context, raw *sql.DB) (made []string, err error) {
	rows, err := raw.QueryContext(ctx, "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
	if err != nil {
		return nil, err
	}
	var names []string
	for rows.Next() {
		var name, how string
		if err := rows.Scan(&name, &how); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		names, made = append(names, name), append(made, how)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := raw.ExecContext(ctx, "DROP INDEX "+name); err != nil {
			return nil, err
		}
	}
	return made, nil
}
