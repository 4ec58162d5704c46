// Package history keeps the runs of jobs after they are over, in a database beside each
// controller.
//
// Contract: a run that ended is in the database exactly once, whatever is killed, full,
// locked or away meanwhile, as long as the outbox in the state still has it or the
// database of another controller does. A Keeper moves runs from the outbox to the
// database, with the position that it has reached in the same transaction; Through is
// what is safe on the disk. Nothing waits for it: neither the log nor a submission.
// Whoever reads gets what is in the database and what is still in the outbox.
// See DESIGN.md.
package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// Source is what a Keeper needs of the replicated state.
type Source interface {
	View() *state.View
	AppliedIndex() uint64
}

// Others are the other controllers.
type Others interface {
	// CopyHistory returns rows behind a position that another controller has, and up
	// to where they are complete; 0 = none has any. all says that every other
	// controller has answered.
	CopyHistory(ctx context.Context, after state.Position) (rows []Row, through state.Position, all bool)
}

// Options of a Keeper.
type Options struct {
	// Path is the file of the database. With a URL the database is on a server instead,
	// and what a file at Path has from before is copied there.
	Path string
	URL  string // postgres://...
	// Keep is how long runs are kept after their end; 0 = forever. Archive is the
	// directory to which those that are purged are written first; "" = none.
	Keep    time.Duration
	Archive string
	Logger  *slog.Logger
}

// Keeper keeps one database up to date.
type Keeper struct {
	options Options
	source  Source
	others  Others
	log     *slog.Logger
	atOnce  int // rows in a transaction, and in an answer to another controller

	through atomic.Uint64
	problem atomic.Pointer[string] // why it does not come on; nil = it does
	torn    atomic.Bool            // a reader has found it damaged

	mu       sync.Mutex
	database store // nil while it cannot be opened; guarded by mu
	readers  sync.WaitGroup

	began  time.Time // when New made it
	index  uint64    // up to which the state was looked at
	purged time.Time // when it was purged last
}

// Bounds of a Keeper's work.
const (
	lookEvery   = 500 * time.Millisecond
	retryMost   = 30 * time.Second
	rowsAtOnce  = 4096
	bytesAtOnce = 8 << 20
	workLimit   = time.Minute // for one transaction
	// aheadLimit is for how long a controller that was just started may know less than
	// the database that it shares with others.
	aheadLimit = time.Minute
)

// New makes a Keeper. Run does its work.
func New(source Source, others Others, options Options) *Keeper {
	return &Keeper{options: options, source: source, others: others, log: options.Logger, atOnce: rowsAtOnce, began: time.Now()}
}

// Run brings the database up to date until ctx ends, and closes it.
func (k *Keeper) Run(ctx context.Context) {
	defer k.close()
	pause := lookEvery
	for {
		switch err := k.work(ctx); {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause = lookEvery
			if k.problem.Swap(nil) != nil {
				k.log.Info("the history database takes runs again", "database", k.where())
			}
		default:
			why := err.Error()
			if before := k.problem.Swap(&why); before == nil || *before != why {
				k.log.Error("the history database takes no runs; they are kept in the state meanwhile, and it is tried again", "database", k.where(), "error", err)
			}
			pause = min(max(2*pause, time.Second), retryMost)
			if errors.Is(err, ErrDamaged) && k.options.URL == "" {
				pause = lookEvery
				k.setAside()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Through is the position up to which the database has all runs.
func (k *Keeper) Through() state.Position { return state.Position(k.through.Load()) }

// Problem is why the database is not up to date; "" = it is, as far as is known.
func (k *Keeper) Problem() string {
	if why := k.problem.Load(); why != nil {
		return fmt.Sprintf("the history database %s takes no runs: %s", k.where(), *why)
	}
	return ""
}

// where names the database to people, without a password.
func (k *Keeper) where() string {
	if k.options.URL == "" {
		return k.options.Path
	}
	at, err := url.Parse(k.options.URL)
	if err != nil {
		return "on its server"
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
}

// work moves what the outbox has to the database.
func (k *Keeper) work(ctx context.Context) error {
	database, err := k.opened(ctx)
	if err != nil {
		return err
	}
	if err := k.seeTorn(ctx); err != nil {
		return err
	}
	if err := k.purge(ctx, database); err != nil {
		return err
	}
	for index := k.source.AppliedIndex(); index != k.index && ctx.Err() == nil; {
		view := k.source.View()
		if wait, err := k.refresh(ctx, database); err != nil || wait {
			return err
		}
		if err := k.fillGap(ctx, database, view.HistoryTrimmed()); err != nil {
			return err
		}
		more, err := k.move(ctx, database, view)
		if err != nil {
			return err
		}
		if !more {
			k.index = index
		}
	}
	return nil
}

// refresh looks how far the database has come: other controllers may write to it too, and
// it may have been restored from a backup. wait says that this controller must first learn
// from the log what the database has.
func (k *Keeper) refresh(ctx context.Context, database store) (wait bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, workLimit)
	defer cancel()
	through, err := database.Through(ctx)
	if err != nil {
		return false, err
	}
	if k.options.URL != "" && through > state.EndOf(k.source.AppliedIndex()) {
		if time.Since(k.began) < aheadLimit {
			return true, nil
		}
		return false, errors.New("it has runs that this cluster has not: it belongs to another cluster, or this controller is far behind, see gcontrol peer list")
	}
	if before := k.Through(); through < before {
		k.log.Error("the history database has fewer runs than it had, as after a restore from a backup: what other controllers have is copied", "database", k.where(), "had", before.Index(), "has", through.Index())
	}
	k.through.Store(uint64(through))
	return false, nil
}

// move puts the next runs of the outbox into the database, and says whether there are
// more.
func (k *Keeper) move(ctx context.Context, database store, view *state.View) (more bool, err error) {
	var rows []Row
	bytes := 0
	for run := range view.HistoryAfter(k.Through()) {
		if len(rows) == k.atOnce || bytes > bytesAtOnce {
			more = true
			break
		}
		rows = append(rows, Row{At: run.At, Run: run.Run})
		bytes += len(run.Run)
	}
	if len(rows) == 0 {
		return false, nil
	}
	return more, k.put(ctx, database, rows, rows[len(rows)-1].At)
}

func (k *Keeper) put(ctx context.Context, database store, rows []Row, through state.Position) error {
	ctx, cancel := context.WithTimeout(ctx, workLimit)
	defer cancel()
	if err := database.Put(ctx, k.Through(), through, rows); err != nil {
		return err
	}
	k.through.Store(uint64(through))
	return nil
}

// fillGap copies from other controllers what the outbox no longer has and the database
// lacks. If none of them has it, it is lost, and that is said once.
func (k *Keeper) fillGap(ctx context.Context, database store, trimmed state.Position) error {
	for k.Through() < trimmed {
		rows, through, all := k.missing(ctx)
		switch {
		case through > k.Through():
			if err := k.put(ctx, database, rows, through); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case !all:
			return errors.New("it has missed runs, and must copy them from another controller: not all of them answer, see gcontrol peer list")
		default:
			k.log.Error("no controller has the runs that ended between these entries of the log: history has a gap there", "after", k.Through().Index(), "through", trimmed.Index())
			if err := k.put(ctx, database, nil, trimmed); err != nil {
				return err
			}
		}
	}
	return nil
}

// missing are the next rows that the database lacks: of the file that a site had before
// its server, or of another controller.
func (k *Keeper) missing(ctx context.Context) (rows []Row, through state.Position, all bool) {
	if k.options.URL != "" {
		rows, through, err := k.former(ctx)
		if err == nil && through > k.Through() {
			return rows, through, true
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.log.Warn("the history database from before there was a server cannot be read, and what it has is not copied: if other controllers have it, move it away", "path", k.options.Path, "error", err)
		}
	}
	return k.others.CopyHistory(ctx, k.Through())
}

// former are rows of the file.
func (k *Keeper) former(ctx context.Context) ([]Row, state.Position, error) {
	if _, err := os.Stat(k.options.Path); err != nil {
		return nil, 0, err
	}
	file, err := OpenSQLite(k.options.Path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	through, err := file.Through(ctx)
	if err != nil {
		return nil, 0, err
	}
	return copyOf(ctx, file, k.Through(), through, k.atOnce)
}

// opened is the database, opened again if it is closed or its file is gone.
func (k *Keeper) opened(ctx context.Context) (store, error) {
	if k.database != nil && k.database.Present() {
		return k.database, nil
	}
	if k.database != nil {
		k.log.Warn("the file of the history database is gone; a new one is opened", "path", k.options.Path)
	}
	k.close()
	database, err := k.open(ctx)
	if err != nil {
		return nil, err
	}
	k.index = 0
	k.through.Store(0)
	if _, err := k.refresh(ctx, database); err != nil {
		return nil, errors.Join(err, database.Close())
	}
	k.mu.Lock()
	k.database = database
	k.mu.Unlock()
	return database, nil
}

func (k *Keeper) open(ctx context.Context) (store, error) {
	if k.options.URL != "" {
		return OpenPostgres(ctx, k.options.URL)
	}
	return OpenSQLite(k.options.Path)
}

func (k *Keeper) close() {
	k.mu.Lock()
	database := k.database
	k.database = nil
	k.mu.Unlock()
	if database == nil {
		return
	}
	k.readers.Wait() // each has a deadline
	if err := database.Close(); err != nil {
		k.log.Warn("the history database was not closed cleanly; that is repaired at the next start", "error", err)
	}
}
