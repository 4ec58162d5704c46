package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The log file reserves its blocks on the disk before they are needed, so that
// a disk that other programs have filled is noticed before a command is
// accepted, and not in the middle of writing it. The rest is given out in this
// order: all of it to raft's own few entries, all but ownRoom to commands that
// finish work, all but newRoom to new work.
const (
	roomStep = 16 << 20 // taken at once
	lowRoom  = 8 << 20  // less than this, and more is taken
	newRoom  = 4 << 20
	ownRoom  = 1 << 20
	leastGot = 1 << 20 // of a step that the disk does not have
)

// growEvery bounds how often a full disk is asked again.
const growEvery = 500 * time.Millisecond

// room is how much can be written without new blocks from the disk.
type room struct {
	used    int64 // end of the highest page in use
	size    int64 // of the file
	free    int64 // in pages that became free, in pieces of any size
	noAhead bool  // the file system cannot give blocks ahead
	refused bool  // the disk gave nothing the last time
	asked   time.Time
}

// bytes is what commands may count on: a large one needs its pages in a row,
// and freed pages may not be in a row.
func (r *room) bytes() int64 { return r.size - r.used + r.free/2 }

// makeRoom measures, and takes more blocks when few are left. It is called
// after each transaction and before the first, with none under way.
func (f *logFile) makeRoom() {
	meta, size, err := f.meta()
	if err != nil {
		return // the next write reports the error of the disk
	}
	stats := f.store.Stats()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room.size, f.room.used = size, int64(meta.pages*meta.pageSize)
	f.room.free = int64(stats.FreePageN+stats.PendingPageN) * int64(meta.pageSize)
	f.growIfLow(f.promised.Load())
}

// growIfLow takes blocks from the disk, a whole step or what there is, when few
// would be left after want more bytes. f.mu is held. The first call also fills
// holes, which a copied file may have.
func (f *logFile) growIfLow(want int64) {
	first := f.room.asked.IsZero()
	enough := f.room.size-f.room.used >= lowRoom+want
	if f.room.noAhead || !first && (enough || f.room.refused && time.Since(f.room.asked) < growEvery) {
		return
	}
	f.room.asked = time.Now()
	for step := int64(roomStep); step >= leastGot; step /= 2 {
		size := f.room.used + want + step
		if size <= f.room.size && !first {
			break // that much is there
		}
		size = max(size, f.room.size)
		err := unix.Fallocate(int(f.file.Fd()), 0, 0, size)
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
			f.room.noAhead = true
			return
		}
		// The new size is on disk before a page after the old one counts.
		if err == nil && (size == f.room.size || f.file.Sync() == nil) {
			f.room.size, f.room.refused = size, false
			return
		}
	}
	if !f.room.refused {
		f.room.refused = true
		f.logger.Warn("the disk is full; free some space, or new jobs are soon refused", "directory", filepath.Dir(f.path), "left_bytes", f.room.bytes())
	}
}

// admit reserves room for a command, until release is called. keep is what must
// be left for others.
func (f *logFile) admit(bytes int, keep int64) (release func(), err error) {
	need := 2*int64(bytes) + 16<<10 // its pages, and those of the tree above it
	promised := f.promised.Add(need)
	if f.left(promised) < keep {
		f.promised.Add(-need)
		return nil, f.fullDisk(nil)
	}
	return func() { f.promised.Add(-need) }, nil
}

// left is what can be written in addition to what is promised.
func (f *logFile) left(promised int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.growIfLow(promised)
	left := f.room.bytes() - promised
	if f.room.noAhead {
		if available, err := availableBytes(f.path); err == nil {
			left += available
		}
	}
	return left
}

// fullDisk is the refusal, with what the disk has left.
func (f *logFile) fullDisk(cause error) error {
	dir, left := filepath.Dir(f.path), ""
	if available, err := availableBytes(dir); err == nil {
		left = fmt.Sprintf(" (%d MiB left)", available>>20)
	}
	err := fmt.Errorf("%w: %s%s: free some space there, and ask again", ErrFull, dir, left)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

func availableBytes(path string) (int64, error) {
	var about unix.Statfs_t
	if err := unix.Statfs(path, &about); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(about.Bavail) * about.Bsize, nil
}

// isFull tells a full disk, or a full quota, from a broken one.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
