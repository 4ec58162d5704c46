package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/mattn/go-sqlite3"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Row is a run with its position.
type Row struct {
	At  state.Position
	Run []byte // a pb.PastRun
}

// Database is a database of runs in one file.
type Database struct {
	path string
	file os.FileInfo // of the path when it was opened
	// SQLite has one writer at a time. Readers have connections of their own, which see
	// what was committed when they began.
	write *sql.DB
	read  *sql.DB
}

// schemaVersion is that of the tables. A program that finds a newer one leaves it alone.
const schemaVersion = 1

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
	run         BLOB NOT NULL
);
CREATE INDEX runs_job ON runs (job);
CREATE INDEX runs_array ON runs (array) WHERE array != 0;
CREATE INDEX runs_uid ON runs (uid, end_ms);
CREATE INDEX runs_user ON runs (user, end_ms);
CREATE INDEX runs_account ON runs (account, end_ms);
CREATE INDEX runs_end ON runs (end_ms);
CREATE TABLE watermark (one INTEGER PRIMARY KEY CHECK (one = 1), through INTEGER NOT NULL);
INSERT INTO watermark VALUES (1, 0);
`

// Errors of a database.
var (
	// ErrNewer is returned when a newer program has made the tables.
	ErrNewer = errors.New("a newer version of gctld has made this database")
	// ErrDamaged is returned when the file is no database, or its contents contradict
	// each other.
	ErrDamaged = errors.New("the database is damaged")
)

// busyMS is how long SQLite itself waits for another process that has the file locked.
const busyMS = 1000

// Open opens the database, or makes one. Nobody but its owner may read it: it has the
// names of everybody's jobs.
func Open(path string) (*Database, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	d := &Database{path: path, file: info}
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

// maxReaders bounds the questions that are answered at once. The api bounds those of one
// user.
const maxReaders = 32

func open(path, settings string) (*sql.DB, error) {
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()
	return sql.Open("sqlite3", fmt.Sprintf("%s?_busy_timeout=%d&%s", name, busyMS, settings))
}

// prepare makes the tables if there are none.
func (d *Database) prepare() error {
	return d.change(context.Background(), func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		switch {
		case version == schemaVersion:
			return nil
		case version > schemaVersion:
			return fmt.Errorf("%w: %s has version %d, and this program reads %d: upgrade this controller, or move the file away to begin a new one", ErrNewer, d.path, version, schemaVersion)
		}
		_, err := tx.Exec(schema + fmt.Sprintf("PRAGMA user_version = %d;", schemaVersion))
		return err
	})
}

// change makes one transaction: all of it, or nothing.
func (d *Database) change(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return classify(err)
	}
	if err := do(tx); err != nil {
		return classify(errors.Join(err, tx.Rollback()))
	}
	return classify(tx.Commit())
}

// Through is the position up to which the database has all runs.
func (d *Database) Through(ctx context.Context) (state.Position, error) {
	var through int64
	err := d.write.QueryRowContext(ctx, "SELECT through FROM watermark").Scan(&through)
	return state.Position(through), classify(err)
}

const upsert = `INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

// Put adds rows and raises the watermark, in one transaction. A row that is there
// already is replaced by itself.
func (d *Database) Put(ctx context.Context, rows []Row, through state.Position) error {
	return d.change(ctx, func(tx *sql.Tx) error {
		add, err := tx.PrepareContext(ctx, upsert)
		if err != nil {
			return err
		}
		defer add.Close()
		for i := range rows {
			if err := put(ctx, add, &rows[i]); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "UPDATE watermark SET through = max(through, ?)", int64(through))
		return err
	})
}

func put(ctx context.Context, add *sql.Stmt, row *Row) error {
	var run pb.PastRun
	if err := proto.Unmarshal(row.Run, &run); err != nil {
		return fmt.Errorf("the run at position %d cannot be read: %w", row.At, err)
	}
	job := run.GetJob()
	eligible := job.GetEligibleMs()
	if eligible == 0 {
		eligible = job.GetSubmitMs()
	}
	gpus, model := 0, ""
	for _, node := range job.GetAllocation() {
		gpus += len(node.GetDevices())
		for _, device := range node.GetDevices() {
			model = device.GetModel()
		}
	}
	borrowed := 0
	for _, b := range run.GetBorrowed() {
		borrowed += int(b.GetGpus())
	}
	cpus := job.GetCpus()
	if job.GetStartMs() == 0 {
		cpus = 0 // what it asked for and never had
	}
	_, err := add.ExecContext(ctx, int64(row.At), job.GetId().GetJob(), job.GetArrayJobId(), job.GetOwner().GetUid(), job.GetOwner().GetUser(), job.GetSpec().GetAccount(),
		eligible, job.GetStartMs(), job.GetEndMs(), run.GetRanMs(), cpus, gpus, model, borrowed, row.Run)
	return err
}

// After are the next rows behind a position, ascending, up to a number of them and about
// a number of bytes.
func (d *Database) After(ctx context.Context, at state.Position, limit, bytes int) ([]Row, error) {
	rows, err := d.read.QueryContext(ctx, "SELECT at, run FROM runs WHERE at > ? ORDER BY at LIMIT ?", int64(at), limit)
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	var found []Row
	for bytes > 0 && rows.Next() {
		var row Row
		if err := rows.Scan(&row.At, &row.Run); err != nil {
			return nil, classify(err)
		}
		found = append(found, row)
		bytes -= len(row.Run)
	}
	return found, classify(rows.Err())
}

// Present reports whether the path still names the file that is open.
func (d *Database) Present() bool {
	info, err := os.Stat(d.path)
	return err == nil && os.SameFile(info, d.file)
}

// Close ends the use of it. Questions that are being answered end with an error.
func (d *Database) Close() error { return errors.Join(d.read.Close(), d.write.Close()) }

// classify tells damage from what may be better at the next attempt.
func classify(err error) error {
	var said sqlite3.Error
	if errors.As(err, &said) && (said.Code == sqlite3.ErrCorrupt || said.Code == sqlite3.ErrNotADB) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
