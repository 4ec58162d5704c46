package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/history/historytest"
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
		data := filepath.Join(directory, "gctld")
		if err := os.MkdirAll(data, 0o700); err != nil {
			return nil, err
		}
		if err := historytest.Fill(ctx, filepath.Join(data, "history.db"), b.sizes.pastRuns, time.Now().UnixMilli()); err != nil {
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
			if found, want := strings.Count(lines, "\n"), historytest.WeekOf(b.sizes.pastRuns); found > want || found < want*9/10 { // the week has gone on since
				return fmt.Errorf("gacct prints %d runs of the last week, and should about %d", found, want)
			}
			b.table.add(round, historyWeek, ours, took)
		}
		return nil
	})
}
