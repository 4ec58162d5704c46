package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// fallbackTmp is the size of an allocation's disk whose settings name none.
const fallbackTmp = 1 << 30

// makeDisk makes the disk on which all lies that the job writes here, and mounts it.
// A node whose administrator wants no bound has a directory in its place.
func (j *Job) makeDisk(ctx context.Context) error {
	job := j.Order.GetAlloc().GetJob()
	switch {
	case j.DryRun:
	case j.Order.GetStaged():
		err := j.takeDisk(ctx, bundle.KeptOf(j.Settings.StateDir, job))
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w: the node was started again, or its state directory cleared", ErrStagedGone)
		}
		return err
	case j.Order.GetStages():
		// What came before the job's last try was interrupted need not come again.
		if err := j.takeDisk(ctx, bundle.PartOf(j.Settings.StateDir, job)); !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Mkdir(j.Dir.Path(bundle.DiskDir), 0o700); err != nil {
		return fmt.Errorf("make the mount point of the job's disk: %w", err)
	}
	if j.Settings.TmpUnbounded {
		return nil
	}
	if err := container.MakeDisk(ctx, j.Dir.Path(bundle.DiskFile), j.DiskBytes()); err != nil {
		return err
	}
	return j.mountDisk()
}

func (j *Job) mountDisk() (err error) {
	j.disk, err = container.MountDisk(j.Dir.Path(bundle.DiskFile), j.Dir.Path(bundle.DiskDir))
	return err
}

// ErrStagedGone is returned, wrapped, if the disk is gone that an earlier run of the job
// has left.
var ErrStagedGone = errors.New("what an earlier run of the job left there is gone")

// takeDisk takes the disk that an earlier run of the job has left, and removes from it what
// belonged to that run alone.
// The error wraps os.ErrNotExist if there is none.
func (j *Job) takeDisk(ctx context.Context, kept bundle.KeptDisk) error {
	if err := kept.Take(ctx, j.Dir); err != nil {
		return err
	}
	if _, err := os.Stat(j.Dir.Path(bundle.DiskFile)); err == nil {
		if err := os.Mkdir(j.Dir.Path(bundle.DiskDir), 0o700); err != nil {
			return fmt.Errorf("make the mount point of the job's disk: %w", err)
		}
		if err := j.mountDisk(); err != nil {
			return err
		}
	}
	return j.Dir.DropRun()
}

// DiskBytes is the size of the disk. A job that resumes from an image has what it had.
func (j *Job) DiskBytes() uint64 {
	switch {
	case j.Settings.TmpUnbounded:
		return 0
	case j.ImageTmpBytes > 0:
		return j.ImageTmpBytes
	case j.Own.TmpBytes > 0:
		return max(j.Own.TmpBytes, container.LeastDiskBytes)
	case j.Settings.TmpPerCPU > 0:
		return max(j.Settings.TmpPerCPU*uint64(max(len(j.Own.CpuIds), 1)), container.LeastDiskBytes)
	}
	return fallbackTmp
}

// DropDisk unmounts the disk, whose files nobody needs any longer, or a later run of the job.
func (j *Job) DropDisk() {
	if j.disk == nil {
		return
	}
	drop := j.disk.Discard
	if j.Order.GetKeepDisk() {
		drop = j.disk.Close // what was written goes to the node's disk
	}
	if err := drop(); err != nil {
		j.Log.Error("the job's disk could not be unmounted: what is left goes with this process", "error", err)
	}
	j.disk = nil
}

// DiskUsed is how much of the disk the job has taken.
func (j *Job) DiskUsed() (uint64, error) {
	if j.disk == nil {
		return 0, nil
	}
	return j.disk.Used()
}
