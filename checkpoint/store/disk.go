package store

import (
	"io"
	"time"
)

// disk is what a Directory does to its file system, and all that it does.
// Names are relative to the store's directory, with slashes; "" is that
// directory itself. No symbolic link is followed and no mount crossed. Tests
// put a disk in its place that stops at any operation and forgets what was not
// synced.
type disk interface {
	MakeDirectory(name string) error
	// Names lists a directory, in no order.
	Names(name string) ([]string, error)
	Status(name string) (status, error)
	// Create makes a file that was not there, of mode 0600.
	Create(name string) (newFile, error)
	Open(name string) (oldFile, error)
	Link(old, new string) error
	// Rename moves a file or a directory; it replaces nothing but an empty
	// directory.
	Rename(old, new string) error
	Remove(name string) error
	RemoveDirectory(name string) error
	// SyncDirectory makes durable which names a directory has.
	SyncDirectory(name string) error
	// Touch sets a directory's time of change to the file system's own clock.
	Touch(name string) error
	// Free answers what the caller may still write, in bytes.
	Free() (int64, error)
}

// newFile is a file that is being written, from its begin to its end.
type newFile interface {
	io.Writer
	// Push starts to write out what was written since the last Push, and waits
	// for what was started some time ago: little is left for Sync, little memory
	// is dirty, and the writer feels how fast the disk is.
	Push() error
	// Sync makes the file's bytes durable, and takes them out of the page cache.
	Sync() error
	Close() error
}

// directUnit is what no disk's own unit is larger than.
const directUnit = 4 << 10

// oldFile is a file that is whole.
type oldFile interface {
	io.ReaderAt
	// ReadDirect is ReadAt that leaves nothing in the page cache where the file system
	// can do that, and else an ordinary one. The place, the length and the address of p
	// are multiples of directUnit. It may be called by several goroutines at once.
	ReadDirect(p []byte, at int64) (int, error)
	Size() (int64, error)
	// Forget takes the file's bytes before a place out of the page cache.
	Forget(before int64)
	Close() error
}

// status is what is known of a file or a directory.
type status struct {
	Directory bool
	Bytes     int64 // that it takes on the disk
	Inode     uint64
	Links     uint64
	Changed   time.Time // by the file system's clock
}
