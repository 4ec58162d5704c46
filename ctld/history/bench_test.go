package history_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/history"
	"github.com/gleaner-hpc/gleaner/ctld/history/historytest"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// BenchmarkPut: how many runs a second are taken, 1000 in a transaction that is synced.
func BenchmarkPut(b *testing.B) {
	database, err := history.OpenSQLite(filepath.Join(b.TempDir(), "history.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer database.Close()
	rows := make([]history.Row, 1000)
	for i := range rows {
		if rows[i].Run, err = proto.Marshal(historytest.Run(i, 1_800_000_000_000+int64(i))); err != nil {
			b.Fatal(err)
		}
	}
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

// million is a database with a million runs, the last of which ended now.
func million(b *testing.B) *history.SQLite {
	path := filepath.Join(b.TempDir(), "history.db")
	if err := historytest.Fill(context.Background(), path, 1_000_000, time.Now().UnixMilli()); err != nil {
		b.Fatal(err)
	}
	database, err := history.OpenSQLite(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = database.Close() })
	return database
}

// BenchmarkMillion: a user's runs of the last week, among a million, and sums over all of
// them.
func BenchmarkMillion(b *testing.B) {
	database := million(b)
	b.Run("LastWeek", func(b *testing.B) {
		found := 0
		for b.Loop() {
			found = 0
			err := database.Read(context.Background(), history.Choice{Users: []string{"user7"}, SinceMS: time.Now().UnixMilli() - 7*24*3600*1000}, 1<<62, func(*history.Found) error { found++; return nil })
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(found), "runs")
	})
	for name, since := range map[string]int64{"SumOfAll": 1, "SumOfAWeek": time.Now().UnixMilli() - 7*24*3600*1000} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				sums, err := database.Sum(context.Background(), history.Choice{SinceMS: since, UntilMS: time.Now().UnixMilli()}, 1<<62)
				if err != nil || len(sums) != historytest.Users {
					b.Fatal(len(sums), err)
				}
			}
		})
	}
}
