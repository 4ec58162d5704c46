package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// Postgres is a database of runs on a server, which several controllers may share: all
// write the same rows, and whoever comes first raises the watermark for all.
type Postgres struct{ pool *sql.DB }

// The names begin with the project's: a site's database may have tables of its own.
const postgresSchema = `
CREATE TABLE gleaner_runs (
	at          bigint PRIMARY KEY,
	job         bigint NOT NULL,
	array_job   bigint NOT NULL,
	uid         bigint NOT NULL,
	user_name   text NOT NULL,
	account     text NOT NULL,
	eligible_ms bigint NOT NULL,
	start_ms    bigint NOT NULL,
	end_ms      bigint NOT NULL,
	ran_ms      bigint NOT NULL,
	cpus        bigint NOT NULL,
	gpus        bigint NOT NULL,
	model       text NOT NULL,
	borrowed    bigint NOT NULL,
	run         bytea NOT NULL,
	nodes       bigint NOT NULL DEFAULT 0,
	memory_mib  bigint NOT NULL DEFAULT 0,
	apart       bigint NOT NULL DEFAULT 1
);
CREATE INDEX gleaner_runs_job ON gleaner_runs (job);
CREATE INDEX gleaner_runs_array ON gleaner_runs (array_job) WHERE array_job != 0;
CREATE INDEX gleaner_runs_uid ON gleaner_runs (uid, end_ms);
CREATE INDEX gleaner_runs_user ON gleaner_runs (user_name, end_ms);
CREATE INDEX gleaner_runs_account ON gleaner_runs (account, end_ms);
CREATE INDEX gleaner_runs_end ON gleaner_runs (end_ms);
CREATE TABLE gleaner_watermark (one boolean PRIMARY KEY CHECK (one), version integer NOT NULL, through bigint NOT NULL);
`

// postgresSumColumns are those that the first version of the tables had not.
const postgresSumColumns = `
ALTER TABLE gleaner_runs ADD COLUMN nodes bigint NOT NULL DEFAULT 0, ADD COLUMN memory_mib bigint NOT NULL DEFAULT 0, ADD COLUMN apart bigint NOT NULL DEFAULT 1`

// Bounds of what is done with a server.
const (
	dialLimit  = 5 * time.Second
	openLimit  = 20 * time.Second
	idleLimit  = 5 * time.Minute
	maxIdle    = 4
	schemaLock = 7_014_991_200 // any number that nobody else takes for an advisory lock
)

// CheckPostgres says what is wrong with the address of a server. It does not dial.
func CheckPostgres(url string) error {
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return errors.New("it must begin with postgres://, as in postgres://gleaner@db.lab/gleaner")
	}
	_, err := pgx.ParseConfig(url) // its errors show no password
	return err
}

// OpenPostgres opens the database, and makes the tables if there are none.
func OpenPostgres(ctx context.Context, url string) (*Postgres, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > dialLimit {
		config.ConnectTimeout = dialLimit
	}
	d := &Postgres{pool: stdlib.OpenDB(*config)}
	d.pool.SetMaxOpenConns(maxReaders)
	d.pool.SetMaxIdleConns(maxIdle)
	d.pool.SetConnMaxIdleTime(idleLimit)
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	if err := d.prepare(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// prepare makes the tables if there are none. The others wait meanwhile.
func (d *Postgres) prepare(ctx context.Context) error {
	return d.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(schemaLock)); err != nil {
			return err
		}
		var encoding string
		var there bool
		err := tx.QueryRowContext(ctx, "SELECT current_setting('server_encoding'), to_regclass('gleaner_watermark') IS NOT NULL").Scan(&encoding, &there)
		switch {
		case err != nil:
			return err
		case encoding != "UTF8":
			return fmt.Errorf("the database has the encoding %s: make one with createdb --encoding=UTF8 --template=template0", encoding)
		case !there:
			if _, err := tx.ExecContext(ctx, postgresSchema); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO gleaner_watermark VALUES (true, $1, 0)", schemaVersion)
			return err
		}
		var version int
		if err := tx.QueryRowContext(ctx, "SELECT version FROM gleaner_watermark").Scan(&version); err != nil {
			return err
		}
		if version == 1 { // what is there already is added up run by run
			if _, err := tx.ExecContext(ctx, postgresSumColumns); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE gleaner_watermark SET version = $1", schemaVersion)
			return err
		}
		if version > schemaVersion {
			return fmt.Errorf("%w: its tables have version %d, and this program reads %d: upgrade this controller, or name another database", ErrNewer, version, schemaVersion)
		}
		return nil
	})
}

// change makes one transaction: all of it, or nothing.
func (d *Postgres) change(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := d.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the connection may be broken, which err says
		return err
	}
	return tx.Commit()
}

// Through implements store.
func (d *Postgres) Through(ctx context.Context) (state.Position, error) {
	var through int64
	err := d.pool.QueryRowContext(ctx, "SELECT through FROM gleaner_watermark").Scan(&through)
	return state.Position(through), err
}

// lock lets one controller write at a time, and returns the watermark. Where a site has
// switched it off, this transaction waits for the disk all the same.
func (d *Postgres) lock(ctx context.Context, tx *sql.Tx) (state.Position, error) {
	if _, err := tx.ExecContext(ctx, "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"); err != nil {
		return 0, err
	}
	var through int64
	err := tx.QueryRowContext(ctx, "SELECT through FROM gleaner_watermark FOR UPDATE").Scan(&through)
	return state.Position(through), err
}

// postgresUpsert takes all rows at once: on the way to a server each statement counts.
const postgresUpsert = `INSERT INTO gleaner_runs
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::bytea[], $16::bigint[], $17::bigint[], $18::bigint[])
ON CONFLICT (at) DO NOTHING`

// Put implements store. What another controller has put meanwhile is left out: it may
// have been purged since.
func (d *Postgres) Put(ctx context.Context, after, through state.Position, rows []Row) error {
	return d.change(ctx, func(tx *sql.Tx) error {
		has, err := d.lock(ctx, tx)
		switch {
		case err != nil:
			return err
		case has < after:
			return ErrBehind
		case has >= through:
			return nil
		}
		var table postgresRows
		for i := range rows {
			if rows[i].At <= has {
				continue
			}
			c, err := columnsOf(&rows[i])
			if err != nil {
				return err
			}
			table.add(&rows[i], &c)
		}
		if _, err := tx.ExecContext(ctx, postgresUpsert, table.arguments()...); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE gleaner_watermark SET through = $1", int64(through))
		return err
	})
}

// postgresRows are rows as the arrays of their columns.
type postgresRows struct {
	numbers [14][]int64
	texts   [3][]string
	runs    [][]byte
}

func (t *postgresRows) add(row *Row, c *columns) {
	apart := int64(0)
	if c.apart {
		apart = 1
	}
	for i, number := range []int64{int64(row.At), int64(c.job), int64(c.array), int64(c.uid), c.eligible, c.start, c.end, c.ran, int64(c.cpus), int64(c.gpus), int64(c.borrowed), int64(c.nodes), int64(c.memory), apart} {
		t.numbers[i] = append(t.numbers[i], number)
	}
	for i, text := range []string{c.user, c.account, c.model} {
		t.texts[i] = append(t.texts[i], storable(text))
	}
	t.runs = append(t.runs, row.Run)
}

// arguments are those of postgresUpsert, in the order of the table's columns.
func (t *postgresRows) arguments() []any {
	n := &t.numbers
	return []any{n[0], n[1], n[2], n[3], t.texts[0], t.texts[1], n[4], n[5], n[6], n[7], n[8], n[9], t.texts[2], n[10], t.runs, n[11], n[12], n[13]}
}

// storable is a text that PostgreSQL takes. The run itself keeps what it was.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// After implements store.
func (d *Postgres) After(ctx context.Context, at state.Position, limit, bytes int) ([]Row, error) {
	rows, err := d.pool.QueryContext(ctx, "SELECT at, run FROM gleaner_runs WHERE at > $1 ORDER BY at LIMIT $2", int64(at), limit)
	if err != nil {
		return nil, err
	}
	return some(rows, bytes)
}

// Read implements store.
func (d *Postgres) Read(ctx context.Context, choice Choice, through state.Position, use func(*Found) error) error {
	conditions, arguments := choice.postgres(through)
	rows, err := d.pool.QueryContext(ctx, "SELECT at, job, uid, run FROM gleaner_runs WHERE "+conditions+" ORDER BY job, at", arguments...)
	if err != nil {
		return err
	}
	return pass(rows, use)
}

// postgres is the choice as conditions.
func (c *Choice) postgres(through state.Position) (string, []any) {
	conditions, arguments := []string{"at <= $1", c.kind()}, []any{int64(through)}
	and := func(condition string, value any) {
		arguments = append(arguments, value)
		conditions = append(conditions, strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(arguments))))
	}
	if len(c.Jobs) > 0 {
		and("(job = ANY(?) OR array_job != 0 AND array_job = ANY(?))", wide(c.Jobs))
	}
	if len(c.UIDs) > 0 {
		and("uid = ANY(?)", wide(c.UIDs))
	}
	if len(c.Users) > 0 {
		and("user_name = ANY(?)", storables(c.Users))
	}
	if len(c.Accounts) > 0 {
		and("account = ANY(?)", storables(c.Accounts))
	}
	if c.SinceMS != 0 {
		and("end_ms >= ?", c.SinceMS)
	}
	if c.UntilMS != 0 {
		and("eligible_ms < ?", c.UntilMS)
	}
	if c.Apart {
		conditions = append(conditions, "apart != 0")
	}
	return strings.Join(conditions, " AND "), arguments
}

func wide(numbers []uint32) []int64 {
	all := make([]int64, len(numbers))
	for i, number := range numbers {
		all[i] = int64(number)
	}
	return all
}

func storables(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = storable(text)
	}
	return all
}

// Purge implements store.
func (d *Postgres) Purge(ctx context.Context, beforeMS int64, most int, archive string) (gone int, err error) {
	err = d.change(ctx, func(tx *sql.Tx) error {
		// Two controllers must not archive the same runs.
		if _, err := d.lock(ctx, tx); err != nil {
			return err
		}
		gone, err = purge(ctx, tx, archive, "DELETE FROM gleaner_runs WHERE at = $1",
			"SELECT at, run FROM gleaner_runs WHERE end_ms < $1 ORDER BY end_ms, at LIMIT $2", beforeMS, most)
		return err
	})
	return gone, err
}

// Present implements store: a name on a server means what it meant, and connections that
// broke are made again.
func (d *Postgres) Present() bool { return true }

// Close implements store.
func (d *Postgres) Close() error { return d.pool.Close() }
