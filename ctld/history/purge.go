package history

import (
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// How often runs are purged, and how many at once: a transaction must not hold up the
// others for long.
const (
	purgeEvery  = time.Hour
	purgeAtOnce = 10_000
)

// purge removes the runs that are older than is wanted, after they were written to the
// archive, if there is one.
func (k *Keeper) purge(ctx context.Context, database *Database) error {
	if k.options.Keep == 0 || time.Since(k.purged) < purgeEvery {
		return nil
	}
	before := time.Now().Add(-k.options.Keep).UnixMilli()
	for {
		gone, err := database.Purge(ctx, before, purgeAtOnce, k.options.Archive)
		if err != nil {
			return err
		}
		if gone < purgeAtOnce {
			k.purged = time.Now()
			return nil
		}
	}
}

// Purge removes the oldest runs that ended before a time, at most so many, and returns how
// many. With an archive they are written there first, durably: a run may be there twice
// after a crash, and is never gone from both.
func (d *Database) Purge(ctx context.Context, beforeMS int64, most int, archive string) (int, error) {
	gone := 0
	err := d.change(ctx, func(tx *sql.Tx) error {
		rows, err := oldest(ctx, tx, beforeMS, most)
		if err != nil || len(rows) == 0 {
			return err
		}
		if archive != "" {
			if err := writeArchive(archive, rows); err != nil {
				return err
			}
		}
		remove, err := tx.PrepareContext(ctx, "DELETE FROM runs WHERE at = ?")
		if err != nil {
			return err
		}
		defer remove.Close()
		for i := range rows {
			if _, err := remove.ExecContext(ctx, int64(rows[i].At)); err != nil {
				return err
			}
		}
		gone = len(rows)
		return nil
	})
	return gone, err
}

func oldest(ctx context.Context, tx *sql.Tx, beforeMS int64, most int) ([]Row, error) {
	found, err := tx.QueryContext(ctx, "SELECT at, run FROM runs WHERE end_ms < ? ORDER BY end_ms, at LIMIT ?", beforeMS, most)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var rows []Row
	for found.Next() {
		var row Row
		if err := found.Scan(&row.At, &row.Run); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

// writeArchive adds runs to the file of today: lines of JSON, compressed. gzip files may
// be appended to each other.
func writeArchive(directory string, rows []Row) (err error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	path := filepath.Join(directory, "runs-"+time.Now().UTC().Format("2006-01-02")+".jsonl.gz")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := gzip.NewWriter(file)
	for i := range rows {
		var run pb.PastRun
		if err := proto.Unmarshal(rows[i].Run, &run); err != nil {
			return err
		}
		line, err := protojson.Marshal(&run)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return file.Sync()
}
