package prepare

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// lookAtFile is userpath.OpenFile for a dry run: what is not there is not made, and
// nothing is cut. In the place of a file that would be made is one of this process's.
func (j *Job) lookAtFile(id userpath.Identity, path string, flags int, umask uint32) (*os.File, error) {
	file, err := userpath.OpenFile(id, path, flags&^(os.O_CREATE|os.O_TRUNC), umask)
	if !errors.Is(err, unix.ENOENT) || flags&os.O_CREATE == 0 {
		return file, err
	}
	if err := mayMake(id, path); err != nil {
		return nil, err
	}
	standIn, err := os.CreateTemp(string(j.Dir), "output-")
	if err == nil {
		err = standIn.Chown(int(id.UID), int(id.GID))
	}
	return standIn, err
}

// mayMake says whether the user could make something at a path.
func mayMake(id userpath.Identity, path string) error {
	above, err := userpath.OpenDirectory(id, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer above.File.Close()
	if !above.Writable {
		return &os.PathError{Op: "open", Path: path, Err: unix.EACCES}
	}
	return nil
}

// lookAtCheckpointDir is openCheckpointDir likewise; nil = it would be made.
func (j *Job) lookAtCheckpointDir(path string) (*userpath.Directory, error) {
	dir, err := userpath.OpenDirectory(j.User.Identity(), path)
	if err == nil && dir.Writable {
		return dir, nil
	}
	if err == nil {
		dir.File.Close()
		err = &os.PathError{Op: "write in", Path: path, Err: unix.EACCES}
	}
	for above := path; errors.Is(err, unix.ENOENT) && above != "/"; {
		above = filepath.Dir(above)
		err = mayMake(j.User.Identity(), filepath.Join(above, "x"))
	}
	if err == nil || !j.Batch {
		return nil, nil
	}
	return nil, j.noCheckpointDir(path, err)
}
