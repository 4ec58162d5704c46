package shim

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// checkpointVariable tells a job where to save itself.
const checkpointVariable = "GLEANER_CHECKPOINT_DIR"

// checkpointDir is where a job that saves itself does so, on the host and
// inside alike; "" for other jobs.
func (p *part) checkpointDir() (string, error) {
	path, err := spec.CheckpointDirectory(p.order.Spec, p.fileNames())
	if err != nil {
		return "", badRequest("--checkpoint-dir %q: %v", p.order.Spec.GetCheckpoint().GetDirectory(), err)
	}
	return path, nil
}

// openCheckpointDir makes that directory with the rights of the job's user,
// and opens it; nil if there is none. A node that does not run the script may
// lack it, like the work directory.
func (p *part) openCheckpointDir() (*container.WorkDir, error) {
	path, err := p.checkpointDir()
	if path == "" || err != nil {
		return nil, err
	}
	err = container.AsUser(p.user, p.order.Spec.GetUmask(), func() error { return os.MkdirAll(path, 0o777) })
	if err == nil {
		var dir *container.WorkDir
		if dir, err = container.OpenWorkDir(p.user, path); err == nil && dir.Writable {
			return dir, nil
		}
		if err == nil {
			dir.File.Close()
			err = &os.PathError{Op: "write in", Path: path, Err: unix.EACCES}
		}
	}
	if !p.batch {
		p.log.Warn("the directory for the job's checkpoints cannot be made here: its tasks on this node find none", "directory", path, "error", err)
		return nil, nil
	}
	return nil, badRequest("cannot make the directory %s for the job's checkpoints on node %s: %s: choose one that user %s can write in there with --checkpoint-dir",
		path, p.order.Node, reason(err), p.userName())
}

// leavePatience bounds how long a job's end waits for the server of its files.
const leavePatience = 2 * time.Second

// leaveCheckpointDir removes the directory that was made for a job that did
// not choose one, if nothing is in it.
func (p *part) leaveCheckpointDir() {
	path, err := p.checkpointDir()
	if !p.batch || path == "" || err != nil || p.order.Spec.GetCheckpoint().GetDirectory() != "" {
		return
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		_ = container.AsUser(p.user, 0, func() error {
			if err := unix.Rmdir(path); err != nil {
				return err // there is something in it, or it has gone
			}
			return unix.Rmdir(filepath.Dir(path))
		})
	}()
	select {
	case <-left:
	case <-time.After(leavePatience):
		p.log.Warn("the directory for the job's checkpoints is not removed: its file server does not answer", "directory", path)
	}
}
