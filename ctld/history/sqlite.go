package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/mattn/go-sqlite3"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// SQLite is a database of runs in one file.
type SQLite struct {
	path string
	file os.FileInfo // of the path when it was opened
	// SQLite has one writer at a time. Readers have connections of their own, which see
	// what was committed when they began.
	write *sql.DB
	read  *sql.DB
}

// The columns beside the run are copies of what is in it, for conditions and sums.
const schema = `
CREATE TABLE runs (
	at          INTEGER PRIMARY KEY,
	job         INTEGER NOT NULL,
	array       INTEGER NOT NULL,
	uid         INTEGER NOT NULL,
	user        TEXT NOT NULL,
	account     TEXT NOT NULL,
	eligible_ms INTEGER NOT NULL,
	start_ms    INTEGER NOT NULL,
	end_ms      INTEGER NOT NULL,
	ran_ms      INTEGER NOT NULL,
	cpus        INTEGER NOT NULL,
	gpus        INTEGER NOT NULL,
	model       TEXT NOT NULL,
	borrowed    INTEGER NOT NULL,
	run         BLOB NOT NULL,
	nodes       INTEGER NOT NULL DEFAULT 0,
	memory_mib  INTEGER NOT NULL DEFAULT 0,
	apart       INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX runs_job ON runs (job);
CREATE INDEX runs_array ON runs (array) WHERE array != 0;
CREATE INDEX runs_uid ON runs (uid, end_ms);
CREATE INDEX runs_user ON runs (user, end_ms);
CREATE INDEX runs_account ON runs (account, end_ms);
CREATE INDEX runs_end ON runs (end_ms);
` + sumIndexes + `
CREATE TABLE watermark (one INTEGER PRIMARY KEY CHECK (one = 1), through INTEGER NOT NULL);
INSERT INTO watermark VALUES (1, 0);
`

// sumIndexes are of what is added up: the first has all of it in the order in which that
// is done, since the runs themselves are ten times as much to read and would have to be
// sorted. The second finds the others.
const sumIndexes = `
CREATE INDEX runs_sums ON runs (account, user, model, end_ms, start_ms, eligible_ms, ran_ms, cpus, nodes, memory_mib, gpus, job, apart) WHERE apart = 0;
CREATE INDEX runs_apart ON runs (end_ms) WHERE apart != 0;`

// sumColumns are those that the first version of the tables had not.
const sumColumns = `
ALTER TABLE runs ADD COLUMN nodes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN memory_mib INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN apart INTEGER NOT NULL DEFAULT 1;
` + sumIndexes

// busyMS is how long SQLite itself waits for another process that has the file locked.
const busyMS = 1000

// OpenSQLite opens the database, or makes one. Nobody but its owner may read it: it has the
// names of everybody's jobs.
func OpenSQLite(path string) (*SQLite, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	d := &SQLite{path: path, file: info}
	// Without FULL the last transactions could be lost with the power, after the
	// controllers were told that they are here.
	if d.write, err = open(path, "_txlock=immediate&_journal_mode=WAL&_synchronous=FULL"); err != nil {
		return nil, err
	}
	d.write.SetMaxOpenConns(1)
	if err := d.prepare(); err != nil {
		return nil, errors.Join(err, d.write.Close())
	}
	if d.read, err = open(path, "_query_only=1&_cache_size=-512"); err != nil {
		return nil, errors.Join(err, d.write.Close())
	}
	d.read.SetMaxOpenConns(maxReaders)
	return d, nil
}

func open(path, settings string) (*sql.DB, error) {
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()
	return sql.Open("sqlite3", fmt.Sprintf("%s?_busy_timeout=%d&%s", name, busyMS, settings))
}

// prepare makes the tables if there are none.
func (d *SQLite) prepare() error {
	return d.change(context.Background(), func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		switch {
		case version == schemaVersion:
			return nil
		case version == 1: // what is there already is added up run by run
			_, err := tx.Exec(sumColumns + fmt.Sprintf("PRAGMA user_version = %d;", schemaVersion))
			return err
		case version > schemaVersion:
			return fmt.Errorf("%w: %s has version %d, and this program reads %d: upgrade this controller, or move the file away to begin a new one", ErrNewer, d.path, version, schemaVersion)
		}
		_, err := tx.Exec(schema + fmt.Sprintf("PRAGMA user_version = %d;", schemaVersion))
		return err
	})
}

// change makes one transaction: all of it, or nothing.
func (d *SQLite) change(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return classify(err)
	}
	if err := do(tx); err != nil {
		return classify(errors.Join(err, tx.Rollback()))
	}
	return classify(tx.Commit())
}

// Through implements store.
func (d *SQLite) Through(ctx context.Context) (state.Position, error) {
	var through int64
	err := d.write.QueryRowContext(ctx, "SELECT through FROM watermark").Scan(&through)
	return state.Position(through), classify(err)
}

const upsert = `INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

// Put implements store.
func (d *SQLite) Put(ctx context.Context, after, through state.Position, rows []Row) error {
	return d.change(ctx, func(tx *sql.Tx) error {
		var has int64
		if err := tx.QueryRowContext(ctx, "SELECT through FROM watermark").Scan(&has); err != nil {
			return err
		}
		if state.Position(has) < after {
			return ErrBehind
		}
		add, err := tx.PrepareContext(ctx, upsert)
		if err != nil {
			return err
		}
		defer add.Close()
		for i := range rows {
			c, err := columnsOf(&rows[i])
			if err != nil {
				return err
			}
			if _, err := add.ExecContext(ctx, int64(rows[i].At), c.job, c.array, c.uid, c.user, c.account, c.eligible, c.start, c.end, c.ran, c.cpus, c.gpus, c.model, c.borrowed, rows[i].Run, c.nodes, c.memory, c.apart); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "UPDATE watermark SET through = max(through, ?)", int64(through))
		return err
	})
}

// After implements store.
func (d *SQLite) After(ctx context.Context, at state.Position, limit, bytes int) ([]Row, error) {
	rows, err := d.read.QueryContext(ctx, "SELECT at, run FROM runs WHERE at > ? ORDER BY at LIMIT ?", int64(at), limit)
	if err != nil {
		return nil, classify(err)
	}
	found, err := some(rows, bytes)
	return found, classify(err)
}

// Present implements store.
func (d *SQLite) Present() bool {
	info, err := os.Stat(d.path)
	return err == nil && os.SameFile(info, d.file)
}

// Close implements store.
func (d *SQLite) Close() error { return errors.Join(d.read.Close(), d.write.Close()) }

// classify tells damage from what may be better at the next attempt.
func classify(err error) error {
	var said sqlite3.Error
	if errors.As(err, &said) && (said.Code == sqlite3.ErrCorrupt || said.Code == sqlite3.ErrNotADB) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
