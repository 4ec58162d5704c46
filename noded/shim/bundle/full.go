package bundle

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// With less space than this, a start that failed for lack of space failed
// because of the disk: a control group, or a user's own quota, has the same
// error.
const (
	littleBytes  = 8 << 20
	littleInodes = 64
)

// DiskFull says whether err, of a start, comes from a full disk below the
// state directory.
func DiskFull(stateDir string, err error) bool {
	switch {
	case errors.Is(err, unix.EDQUOT):
	case errors.Is(err, unix.ENOSPC):
	// Only the text of an error of libcontainer's own process is known.
	case strings.Contains(err.Error(), unix.ENOSPC.Error()):
	default:
		return false
	}
	var fs unix.Statfs_t
	if unix.Statfs(stateDir, &fs) != nil {
		return false
	}
	return fs.Bavail*uint64(fs.Bsize) < littleBytes || fs.Files > 0 && fs.Ffree < littleInodes || errors.Is(err, unix.EDQUOT)
}
