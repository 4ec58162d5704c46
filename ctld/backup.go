package ctld

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/proto/snapshotfile"
)

// backups are written by each controller for itself, leader or not: so each
// host has its own, none waits for another, and the loss of two leaves a third.
// A follower's backup is as old as its state.
type backups struct {
	dir     string
	every   time.Duration
	keep    int
	name    string // of this controller
	version string
	cluster *cluster
	log     *slog.Logger
	failed  atomic.Pointer[string] // why there is no new one; nil = there is one
}

// Bounds of a configuration.
const (
	minBackupEvery = time.Second
	maxBackupEvery = 31 * 24 * time.Hour
	maxBackupKeep  = 10_000
)

// backupEnd ends the names of backups; they begin with the controller's name,
// and sort by their time.
const (
	backupEnd   = ".snapshot"
	backupStamp = "20060102T150405Z"
)

// checkBackups refuses what cannot work.
func (c *Config) checkBackups() error {
	if c.BackupDir == "" {
		return nil
	}
	switch every, err := c.backupEvery(); {
	case !filepath.IsAbs(c.BackupDir):
		return fmt.Errorf("%w: backup_dir = %q must be an absolute path", ErrConfig, c.BackupDir)
	case err != nil || every < minBackupEvery || every > maxBackupEvery:
		return fmt.Errorf("%w: backup_every = %.80q must be from %v to %v, as in 1h", ErrConfig, c.BackupEvery, minBackupEvery, maxBackupEvery)
	case c.BackupKeep < 1 || c.BackupKeep > maxBackupKeep:
		return fmt.Errorf("%w: backup_keep = %d must be from 1 to %d files", ErrConfig, c.BackupKeep, maxBackupKeep)
	}
	return nil
}

func (c *Config) backupEvery() (time.Duration, error) { return time.ParseDuration(c.BackupEvery) }

// How soon a backup is tried again: after a failure, and while there is no
// state yet, as in a cluster that just begins or a peer that waits to be added.
const (
	retryBackup  = time.Minute
	awaitedState = time.Second
)

// run writes one backup after another until ctx ends. The first is due once the
// controller answers, and the newest existing one is old enough.
func (b *backups) run(ctx context.Context, ready <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-ready:
	}
	timer := time.NewTimer(b.until(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pause := b.every
		if b.cluster.AppliedIndex() == 0 {
			pause = awaitedState
		} else if err := b.write(time.Now()); err != nil {
			pause = min(retryBackup, b.every)
			why := err.Error()
			b.failed.Store(&why)
			b.log.Error("no backup could be written; see to the directory, it is tried again", "directory", b.dir, "error", err, "again_in", pause)
		} else {
			b.failed.Store(nil)
		}
		timer.Reset(pause)
	}
}

// until is how long to wait for the next backup.
func (b *backups) until(now time.Time) time.Duration {
	names, err := b.list()
	if err != nil || len(names) == 0 {
		return 0
	}
	stamp := strings.TrimSuffix(strings.TrimPrefix(names[len(names)-1], b.name+"-"), backupEnd)
	newest, err := time.Parse(backupStamp, stamp)
	if err != nil || newest.After(now) {
		return 0
	}
	return max(newest.Add(b.every).Sub(now), 0)
}

// problems is what an administrator should look at.
func (b *backups) problems() []string {
	if b == nil {
		return nil
	}
	if why := b.failed.Load(); why != nil {
		return []string{fmt.Sprintf("controller %s cannot write backups: %s", b.name, *why)}
	}
	return nil
}

// write writes a backup whole, or nothing, and removes the oldest ones above
// the limit.
func (b *backups) write(now time.Time) error {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(b.dir, b.name+"-"+now.UTC().Format(backupStamp)+backupEnd)
	if err := b.writeFile(path); err != nil {
		return err
	}
	return b.prune()
}

func (b *backups) writeFile(path string) (err error) {
	draft := filepath.Join(b.dir, b.name+".draft") // one at a time; a crash leaves one at most
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 1<<20)
	view := b.cluster.View()
	header := api.SnapshotHeader(view, b.cluster.Term(), b.cluster.Members(), b.version)
	err = snapshotfile.Send(header, api.Recording(view), view.Persist, snapshotfile.NewWriter(out).Add)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	directory, err := os.Open(b.dir)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// list are the names of this controller's backups, oldest first.
func (b *backups) list() ([]string, error) {
	entries, err := os.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		stamp, mine := strings.CutPrefix(entry.Name(), b.name+"-")
		if _, wrong := time.Parse(backupStamp+backupEnd, stamp); mine && wrong == nil && entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

func (b *backups) prune() error {
	names, err := b.list()
	for len(names) > b.keep {
		err = errors.Join(err, os.Remove(filepath.Join(b.dir, names[0])))
		names = names[1:]
	}
	return err
}
