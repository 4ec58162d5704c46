package history

import (
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"math"
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
func (k *Keeper) purge(ctx context.Context, database store) error {
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

// Purge implements store.
func (d *SQLite) Purge(ctx context.Context, beforeMS int64, most int, archive string) (gone int, err error) {
	err = d.change(ctx, func(tx *sql.Tx) error {
		gone, err = purge(ctx, tx, archive, "DELETE FROM runs WHERE at = ?",
			"SELECT at, run FROM runs WHERE end_ms < ? ORDER BY end_ms, at LIMIT ?", beforeMS, most)
		return err
	})
	return gone, err
}

// purge archives and removes the rows that a question finds.
func purge(ctx context.Context, tx *sql.Tx, archive, remove, question string, arguments ...any) (int, error) {
	found, err := tx.QueryContext(ctx, question, arguments...)
	if err != nil {
		return 0, err
	}
	rows, err := some(found, math.MaxInt)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	if archive != "" {
		if err := writeArchive(archive, rows); err != nil {
			return 0, err
		}
	}
	gone, err := tx.PrepareContext(ctx, remove)
	if err != nil {
		return 0, err
	}
	defer gone.Close()
	for i := range rows {
		if _, err := gone.ExecContext(ctx, int64(rows[i].At)); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
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
