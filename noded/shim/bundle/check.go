package bundle

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Check refuses what cannot be an allocation's directory as Launch made it. It follows
// no link. Nothing in a refused directory is believed.
func (d Dir) Check() error {
	var stat unix.Stat_t
	if err := unix.Lstat(string(d), &stat); err != nil {
		return &os.PathError{Op: "look at", Path: string(d), Err: err}
	}
	why := ""
	switch {
	case stat.Mode&unix.S_IFMT == unix.S_IFLNK:
		why = "it is a symbolic link"
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		why = "it is not a directory"
	case stat.Uid != uint32(os.Geteuid()):
		why = fmt.Sprintf("it belongs to user %d", stat.Uid)
	case stat.Mode&0o022 != 0:
		why = fmt.Sprintf("others may write to it (mode %04o)", stat.Mode&0o7777)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrForeign, why)
}

// HoldsAlloc says whether one of the files is there that only an allocation's
// directory has, or nothing at all.
func (d Dir) HoldsAlloc() bool {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if kept[entry.Name()] {
			return true
		}
	}
	return len(entries) == 0
}

// Gone is the directory's name while the rest of it is being deleted. Because an
// allocation gets this name in one step, no allocation is ever half deleted.
func (d Dir) Gone() string {
	return filepath.Join(filepath.Dir(string(d)), GonePrefix+d.ID())
}
