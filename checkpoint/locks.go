package checkpoint

import (
	"path/filepath"

	file_lock "github.com/checkpoint-restore/go-criu/v8/crit/images/file-lock"
)

// HoldsLocks says whether the processes of an image hold locks on files (flock(2),
// fcntl(2), leases), from CRIU's files in a directory.
func HoldsLocks(images string) (bool, error) {
	locks, err := readEntries[file_lock.FileLockEntry](filepath.Join(images, "filelocks.img"))
	return len(locks) > 0, err
}
