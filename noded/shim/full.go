package shim

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// What is so little that a start which failed for lack of space failed for
// lack of this space: a control group, or a user's own quota, has the same
// error.
const (
	littleBytes  = 1 << 20
	littleInodes = 64
)

// DiskFull says whether err, of a start, comes from a full disk below the
// state directory.
func DiskFull(stateDir string, err error) bool {
	switch {
	case errors.Is(err, unix.EDQUOT):
	case errors.Is(err, unix.ENOSPC):
	// Of libcontainer's own process there is the text only.
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
