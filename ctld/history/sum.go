package history

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Sum is what the chosen runs used between choice.SinceMS and choice.UntilMS, up to a
// Position but not behind last, which it returns as Read does: by user, account and model
// of GPUs. Runs whose columns do not say all of that are not in it: use is called with
// each of them.
func (k *Keeper) Sum(ctx context.Context, choice Choice, last state.Position, use func(*Found) error) ([]*pb.RunSum, state.Position, error) {
	database, through, err := k.acquire()
	if err != nil {
		return nil, 0, err
	}
	defer k.readers.Done()
	through = min(through, last)
	sums, err := database.Sum(ctx, choice, through)
	if err != nil {
		return nil, 0, k.noteTorn(err)
	}
	choice.Apart = true
	return sums, through, k.noteTorn(database.Read(ctx, choice, through, use))
}

// What a run used is an amount times the milliseconds that it ran between two moments. Of
// one that was suspended it is not known when: that time is taken off in proportion. Memory
// is added up in seconds and the rest: times milliseconds it exceeds a column in a year.
const sqliteSum = `
SELECT account, user, model, sum(cpus * ms), sum(nodes * ms), sum(gpus * ms), sum(memory_mib * (ms / 1000)), sum(memory_mib * (ms % 1000))
FROM (
	SELECT *, iif(ran_ms < end_ms - start_ms, CAST(CAST(inside AS REAL) * CAST(max(ran_ms, 0) AS REAL) / CAST(end_ms - start_ms AS REAL) AS INTEGER), inside) AS ms
	FROM (
		SELECT account, user, model, cpus, memory_mib, nodes, gpus, start_ms, end_ms, ran_ms, min(end_ms, ?) - max(start_ms, ?) AS inside
		FROM runs WHERE apart = 0 AND start_ms != 0 AND end_ms > start_ms AND `

const sqliteSumEnd = `
	) WHERE inside > 0
) GROUP BY account, user, model`

// Sum implements store.
func (d *SQLite) Sum(ctx context.Context, choice Choice, through state.Position) ([]*pb.RunSum, error) {
	text, arguments := choice.sumQuestion(through)
	rows, err := d.read.QueryContext(ctx, text, arguments...)
	if err != nil {
		return nil, classify(err)
	}
	sums, err := sumsOf(rows)
	return sums, classify(err)
}

// sumQuestion is what Sum asks.
func (c *Choice) sumQuestion(through state.Position) (string, []any) {
	conditions, arguments := c.sql(through)
	return sqliteSum + conditions + sqliteSumEnd, append([]any{c.until(), c.SinceMS}, arguments...)
}

// until is the end of what counts.
func (c *Choice) until() int64 {
	if c.UntilMS == 0 {
		return 1<<62 - 1
	}
	return c.UntilMS
}

func sumsOf(rows *sql.Rows) (sums []*pb.RunSum, err error) {
	defer rows.Close()
	for rows.Next() {
		sum := new(pb.RunSum)
		var memorySeconds, rest uint64
		if err := rows.Scan(&sum.Account, &sum.User, &sum.Model, &sum.CpuMs, &sum.NodeMs, &sum.GpuMs, &memorySeconds, &rest); err != nil {
			return nil, err
		}
		sum.MemoryMibMs = memorySeconds*1000 + rest
		sums = append(sums, sum)
	}
	return sums, rows.Err()
}

const postgresSum = `
SELECT account, user_name, model, sum(cpus * ms), sum(nodes * ms), sum(gpus * ms), sum(memory_mib * (ms / 1000)), sum(memory_mib * (ms % 1000))
FROM (
	SELECT *, CASE WHEN ran_ms < end_ms - start_ms
		THEN trunc(inside::float8 * greatest(ran_ms, 0)::float8 / (end_ms - start_ms)::float8)::bigint ELSE inside END AS ms
	FROM (
		SELECT account, user_name, model, cpus, memory_mib, nodes, gpus, start_ms, end_ms, ran_ms, least(end_ms, $UNTIL) - greatest(start_ms, $SINCE) AS inside
		FROM gleaner_runs WHERE apart = 0 AND start_ms != 0 AND end_ms > start_ms AND `

const postgresSumEnd = `
	) AS one WHERE inside > 0
) AS of GROUP BY account, user_name, model`

// Sum implements store.
func (d *Postgres) Sum(ctx context.Context, choice Choice, through state.Position) ([]*pb.RunSum, error) {
	conditions, arguments := choice.postgres(through)
	places := strings.NewReplacer("$UNTIL", fmt.Sprintf("$%d::bigint", len(arguments)+1), "$SINCE", fmt.Sprintf("$%d::bigint", len(arguments)+2))
	rows, err := d.pool.QueryContext(ctx, places.Replace(postgresSum)+conditions+postgresSumEnd, append(arguments, choice.until(), choice.SinceMS)...)
	if err != nil {
		return nil, err
	}
	return sumsOf(rows)
}
