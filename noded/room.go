package noded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

const (
	// defaultMinFree is what a start needs free in the state directory when
	// the configuration does not say: the allocation itself needs little, but its
	// job has /tmp there.
	defaultMinFree = 64 * mebibyte
	// leastInodes is what a start needs of inodes: an allocation has some forty.
	leastInodes = 1024
	// probeBytes are written to see whether a disk that had no room has some.
	probeBytes = 64 << 10
)

// room watches the disk of the state directory. A node that has none takes no
// new jobs until it has: otherwise it would fail every job of the queue, one
// after another, because a node on which nothing runs is always free.
type room struct {
	directory string
	minFree   uint64 // bytes

	mu      sync.Mutex
	trouble string // why nothing can be started; "" = there is room
	doubted bool   // a start failed though there seemed to be room
}

// look finds out whether there is room, answers why not, and whether that is
// news. The sentence does not change while its cause does not.
func (r *room) look() (trouble string, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.trouble
	r.trouble = r.measure()
	if r.trouble == "" && r.doubted {
		if err := r.probe(); err != nil {
			r.trouble = fmt.Sprintf("no job can be started: %s: %v", r.directory, err)
		} else {
			r.doubted = false
		}
	}
	return r.trouble, r.trouble != before
}

// doubt makes the next looks write something, until that succeeds.
func (r *room) doubt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doubted = true
}

// known is what look found last.
func (r *room) known() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trouble
}

func (r *room) measure() string {
	const full = "No space left on device: state_dir %s has %s, and a job needs that to start: remove something there"
	var fs unix.Statfs_t
	switch err := unix.Statfs(r.directory, &fs); {
	case err != nil:
		return fmt.Sprintf("no job can be started: state_dir %s: %v", r.directory, err)
	case fs.Flags&unix.ST_RDONLY != 0:
		return fmt.Sprintf("no job can be started: state_dir %s is read-only: see the kernel log, and mount it again", r.directory)
	case fs.Bavail*uint64(fs.Bsize) < r.minFree:
		return fmt.Sprintf(full, r.directory, "less than "+spec.FormatSize(r.minFree)+" free")
	case fs.Files > 0 && fs.Ffree < leastInodes: // some file systems do not count them
		return fmt.Sprintf(full, r.directory, fmt.Sprintf("less than %d inodes free", leastInodes))
	}
	return ""
}

// probe writes and removes a file.
func (r *room) probe() error {
	name := filepath.Join(r.directory, "room.probe")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return errors.Unwrap(err)
	}
	_, err = f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(name))
}

// checkRoom looks whether there is room, and answers why not. If that has
// changed, the node registers again, and whatever is sent afterwards comes after
// that.
func (a *agent) checkRoom() string {
	trouble, news := a.machine.room.look()
	switch {
	case news && trouble != "":
		a.log.Error("no job is started here until this is mended: free some space", "reason", trouble)
	case news:
		a.log.Info("jobs are started here again: there is room", "directory", a.machine.room.directory)
	}
	a.tellTrouble()
	return trouble
}

// launchCause says whose fault it is that an allocation could not be started.
func (a *agent) launchCause(err error) pb.EndCause {
	if bundle.DiskFull(a.machine.config.StateDir, err) {
		a.machine.room.doubt()
	} else if a.checkRoom() == "" {
		return pb.EndCause_END_CAUSE_NODE_FAULT
	}
	a.checkRoom()
	return pb.EndCause_END_CAUSE_NODE_FULL
}
