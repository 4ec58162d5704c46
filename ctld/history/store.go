package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Row is a run with its position.
type Row struct {
	At  state.Position
	Run []byte // a pb.PastRun
}

// store is a database of runs: SQLite or Postgres.
type store interface {
	// Through is the position up to which it has all runs.
	Through(context.Context) (state.Position, error)
	// Put adds the rows between two positions, and raises the watermark to the second,
	// in one transaction, which is durable when it returns. A row that is there already
	// stays as it is. ErrBehind says that the watermark is below after.
	Put(ctx context.Context, after, through state.Position, rows []Row) error
	// After are the next rows behind a position, ascending, up to a number of them and
	// about a number of bytes.
	After(ctx context.Context, at state.Position, limit, bytes int) ([]Row, error)
	// Read is that of Keeper.
	Read(ctx context.Context, choice Choice, through state.Position, use func(*Found) error) error
	// Sum adds up what runs used that are not apart.
	Sum(ctx context.Context, choice Choice, through state.Position) ([]*pb.RunSum, error)
	// Purge removes the oldest runs that ended before a time, at most so many, and
	// returns how many. With an archive they are written there first, durably: a run
	// may be there twice after a crash, and is never gone from both.
	Purge(ctx context.Context, beforeMS int64, most int, archive string) (int, error)
	// Present reports whether what is open is still what its name means.
	Present() bool
	// Close ends the use of it. Questions that are being answered end with an error.
	Close() error
}

// Errors of a database.
var (
	// ErrNewer is returned when a newer program has made the tables.
	ErrNewer = errors.New("a newer version of gctld has made this database")
	// ErrDamaged is returned when the file is no database, or its contents contradict
	// each other.
	ErrDamaged = errors.New("the database is damaged")
	// ErrBehind is returned when a database has fewer runs than it had, as after a
	// restore from a backup.
	ErrBehind = errors.New("the database lacks runs that it had before")
)

// schemaVersion is that of the tables. A program that finds a newer one leaves them alone.
const schemaVersion = 2

// maxReaders bounds the questions that are answered at once. The api bounds those of one
// user.
const maxReaders = 32

// columns are copies of what is in a run, for conditions and sums.
type columns struct {
	job, array, uid           uint32
	user, account, model      string
	eligible, start, end, ran int64 // milliseconds
	cpus, nodes               uint32
	memory                    uint64 // MiB
	gpus, borrowed            int
	// apart: the other columns do not have all that the run used, so that it has to be
	// decoded to be added up.
	apart bool
}

func columnsOf(row *Row) (columns, error) {
	var run pb.PastRun
	if err := proto.Unmarshal(row.Run, &run); err != nil {
		return columns{}, fmt.Errorf("the run at position %d cannot be read: %w", row.At, err)
	}
	if event := run.GetEvent(); event != nil { // job 0 is nobody's
		return columns{start: event.GetStartMs(), eligible: event.GetStartMs(), end: event.GetEndMs(), apart: true}, nil
	}
	job := run.GetJob()
	c := columns{
		job: job.GetId().GetJob(), array: job.GetArrayJobId(), uid: job.GetOwner().GetUid(), user: job.GetOwner().GetUser(), account: job.GetSpec().GetAccount(),
		eligible: job.GetEligibleMs(), start: job.GetStartMs(), end: job.GetEndMs(), ran: run.GetRanMs(),
	}
	if c.eligible == 0 {
		c.eligible = job.GetSubmitMs()
	}
	if c.start != 0 { // else it is what it asked for and never had
		c.cpus, c.nodes = job.GetCpus(), job.GetNodes()
	}
	for _, node := range job.GetAllocation() {
		for _, device := range node.GetDevices() {
			c.apart = c.apart || c.gpus > 0 && c.model != device.GetModel()
			c.model = device.GetModel()
			c.gpus++
		}
		c.memory += node.GetMemoryBytes()
	}
	for _, b := range run.GetBorrowed() {
		c.borrowed += int(b.GetGpus())
	}
	asked := job.GetSpec()
	inWords := asked.GetMemoryPerCpuBytes() + asked.GetMemoryPerGpuBytes() + asked.GetMemoryPerNodeBytes()
	c.apart = c.apart || len(run.GetBorrowed()) > 0 || len(job.GetAllocation()) == 0 || c.memory == 0 && inWords > 0 || c.memory>>20 > maxMemory || max(c.cpus, c.nodes) > maxAmount
	c.memory >>= 20
	return c, nil
}

// Bounds of what one run adds to sums in the database, memory in MiB: the time of a million
// such runs fits into a column.
const (
	maxMemory = 1 << 31
	maxAmount = 1 << 20
)

// some are rows of a database, up to about a number of bytes.
func some(rows *sql.Rows, bytes int) (found []Row, err error) {
	defer rows.Close()
	for bytes > 0 && rows.Next() {
		var row Row
		if err := rows.Scan(&row.At, &row.Run); err != nil {
			return nil, err
		}
		found = append(found, row)
		bytes -= len(row.Run)
	}
	return found, rows.Err()
}

// Found is a run that a question finds, until use has returned.
type Found struct {
	At       state.Position
	Job, UID uint32
	encoded  sql.RawBytes
}

// Encoded is the run as the database has it: a pb.PastRun, if it is not damaged.
func (f *Found) Encoded() []byte { return f.encoded }

// Run is the run.
func (f *Found) Run() (*pb.PastRun, error) {
	run := new(pb.PastRun)
	if err := proto.Unmarshal(f.encoded, run); err != nil {
		return nil, errors.Join(ErrDamaged, err)
	}
	return run, nil
}

// pass calls use with each run of a database.
func pass(rows *sql.Rows, use func(*Found) error) error {
	defer rows.Close()
	var found Found
	for rows.Next() {
		if err := rows.Scan(&found.At, &found.Job, &found.UID, &found.encoded); err != nil {
			return err
		}
		if err := use(&found); err != nil {
			return err
		}
	}
	return rows.Err()
}
