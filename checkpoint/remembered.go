package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CRIU begins by trying out what the kernel can do: 15 to 40 ms in which a job stands, or
// is waited for. It remembers the answers in a file, but for whoever is not root outside
// only in XDG_RUNTIME_DIR, and only in memory, so that they are forgotten with the kernel.
// CRIU trusts that file, so it lies where nobody but root can write, never where this
// process's own variable leads.

// runtimeVariable names CRIU's directory.
const runtimeVariable = "XDG_RUNTIME_DIR"

// memoryPlaces are where a file system in memory may be.
var memoryPlaces = []string{"/run", "/dev/shm"}

// What CRIU is started for. It has other rights for one than for the other, and the
// kernel may answer otherwise.
const (
	forDumps    = "dump"
	forRestores = "restore"
)

// withMemory answers an environment for CRIU: with a place to remember what the kernel can
// do, or with none if this machine has no such place.
func withMemory(environment []string, purpose string) []string {
	var result []string
	for _, entry := range environment {
		if !strings.HasPrefix(entry, runtimeVariable+"=") {
			result = append(result, entry)
		}
	}
	for _, place := range memoryPlaces {
		if dir, ok := rememberIn(place, purpose); ok {
			return append(result, runtimeVariable+"="+dir)
		}
	}
	return result
}

// rememberIn makes the directory in a place, and says whether CRIU may use it. /dev/shm
// is everybody's: what somebody else has made there is left alone.
func rememberIn(place, purpose string) (dir string, ok bool) {
	var fs unix.Statfs_t
	if err := unix.Statfs(place, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return "", false
	}
	dir = place
	for _, name := range []string{"gleaner-criu", purpose} {
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return "", false
		}
		var stat unix.Stat_t
		err := unix.Lstat(dir, &stat)
		if err != nil || stat.Mode != unix.S_IFDIR|0o700 || int(stat.Uid) != os.Geteuid() {
			return "", false
		}
	}
	return dir, true
}
