package prepare

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// checkpointVariable tells a job where to save itself.
const checkpointVariable = "GLEANER_CHECKPOINT_DIR"

// checkpointDir is where a job that saves itself does so, on the host and
// inside alike; "" for other jobs.
func (j *Job) checkpointDir() (string, error) {
	path, err := spec.CheckpointDirectory(j.Order.Spec, j.fileNames())
	if err != nil {
		return "", BadRequest("--checkpoint-dir %q: %v", j.Order.Spec.GetCheckpoint().GetDirectory(), err)
	}
	return path, nil
}

// openCheckpointDir makes that directory with the rights of the job's user,
// and opens it; nil if there is none. A node that does not run the script may
// lack it, like the work directory.
func (j *Job) openCheckpointDir() (*userpath.Directory, error) {
	path, err := j.checkpointDir()
	if path == "" || err != nil {
		return nil, err
	}
	if j.DryRun {
		return j.lookAtCheckpointDir(path)
	}
	dir, err := userpath.MakeDirectory(j.User.Identity(), path, j.Order.Spec.GetUmask())
	if err == nil && dir.Writable {
		return dir, nil
	}
	if err == nil {
		dir.File.Close()
		err = &os.PathError{Op: "write in", Path: path, Err: unix.EACCES}
	}
	if !j.Batch {
		j.Log.Warn("the directory for the job's checkpoints cannot be made here: its tasks on this node find none", "directory", path, "error", err)
		return nil, nil
	}
	return nil, j.noCheckpointDir(path, err)
}

func (j *Job) noCheckpointDir(path string, err error) error {
	return BadRequest("cannot make the directory %s for the job's checkpoints on node %s: %s: choose one that user %s can write in there with --checkpoint-dir",
		path, j.Order.Node, reason(err), j.userName())
}

// leavePatience bounds how long a job's end waits for the server of its files.
const leavePatience = 2 * time.Second

// LeaveCheckpointDir removes the directory that was made for a job that did
// not choose one, if nothing is in it.
func (j *Job) LeaveCheckpointDir() {
	path, err := j.checkpointDir()
	if !j.Batch || path == "" || err != nil || j.Order.Spec.GetCheckpoint().GetDirectory() != "" {
		return
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		if err := userpath.RemoveDirectory(j.User.Identity(), path); err != nil {
			return // there is something in it, or it has gone
		}
		_ = userpath.RemoveDirectory(j.User.Identity(), filepath.Dir(path))
	}()
	select {
	case <-left:
	case <-time.After(leavePatience):
		j.Log.Warn("the directory for the job's checkpoints is not removed: its file server does not answer", "directory", path)
	}
}
