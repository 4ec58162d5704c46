package roots

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
)

// Cache is the directory. Its zero limits allow nothing.
type Cache struct {
	Dir     string // of root, closed to all others
	Program string // goci
	Limit   int64  // bytes of all layers
	FirstID int    // of the ids as which layers are unpacked; 65536 follow each other
	Group   string // the control group of what fetches and unpacks; "" = this process' own
	Log     *slog.Logger

	settling sync.WaitGroup // on what no job waits for
}

// Directories of a cache.
const (
	layersDir    = "layers"    // HEX/root and HEX/record.json, by what is in them
	imagesDir    = "images"    // HEX.json, by the digests that pin them
	unpackingDir = "unpacking" // each with a lock on itself while its process lives
	removedDir   = "removed"   // what is being deleted
	emptyDir     = "empty"     // the root of what checks signatures
	locksDir     = "locks"     // HEX of a layer: shared by who uses it, exclusive for who removes it; HEX.make
	lockName     = "lock"      // of the cache, held for moments
)

// Error is about an image, its place or the user's credentials: the job's fault.
type Error struct {
	Image string
	Err   error
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("container image %s: %v", e.Image, e.Err) }

// Unwrap implements the interface of errors.Is.
func (e *Error) Unwrap() error { return e.Err }

// ErrFull is returned, wrapped, for an image for which the cache has no room.
var ErrFull = errors.New("the node's cache of container images has no room")

func (c *Cache) path(elements ...string) string {
	return filepath.Join(append([]string{c.Dir}, elements...)...)
}

// makeDirs makes the cache if it is not there.
func (c *Cache) makeDirs() error {
	for _, dir := range []string{layersDir, imagesDir, unpackingDir, removedDir, locksDir, emptyDir} {
		if err := os.MkdirAll(c.path(dir), 0o700); err != nil {
			return fmt.Errorf("make the cache of container images: %w", err)
		}
	}
	return nil
}

// lock holds the cache until unlock is called.
func (c *Cache) lock() (unlock func(), err error) {
	file, err := os.OpenFile(c.path(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the cache of container images: %w", err)
	}
	if err := flock(file, unix.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock the cache of container images: %w", err)
	}
	return func() { unflock(file) }, nil
}

// flock takes a lock of a file, which unflock gives back, or the end of this process.
func flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// unflock gives a lock back, and closes its file. Closing alone would not do: a child that
// has not executed its program yet has a copy of the descriptor, which would keep the lock.
func unflock(file *os.File) {
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
	file.Close()
}

// sweep deletes what nobody is busy with. It is called without the lock.
func (c *Cache) sweep() {
	for _, file := range c.abandoned() {
		if err := remove.Tree(file.Name()); err != nil {
			c.Log.Warn("what is left of a container image cannot be removed: look at it", "path", file.Name(), "error", err)
		}
		unflock(file)
	}
}

// abandoned locks the directories that nobody is busy with. It has the lock of the cache,
// because whoever makes one has it until that is locked.
func (c *Cache) abandoned() (files []*os.File) {
	unlock, err := c.lock()
	if err != nil {
		return nil
	}
	defer unlock()
	for _, dir := range []string{unpackingDir, removedDir} {
		entries, err := os.ReadDir(c.path(dir))
		if err != nil {
			continue
		}
		for _, entry := range entries {
			file, err := os.Open(c.path(dir, entry.Name()))
			if err != nil {
				continue
			}
			if flock(file, unix.LOCK_EX|unix.LOCK_NB) != nil {
				file.Close()
				continue
			}
			files = append(files, file)
		}
	}
	return files
}

// bootID tells this run of the machine from others; "" = it is unknown.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
