package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// StagedDir is where a node keeps the disks of jobs between two runs, below its state
// directory: BOOT/JOB. A disk of an earlier boot is not used, because it has no journal.
const StagedDir = "staged"

// KeptDisk is the directory of one that is kept.
type KeptDisk string

// KeptOf names the disk of a job, which may not be there.
func KeptOf(stateDir string, job uint32) KeptDisk {
	return KeptDisk(filepath.Join(stateDir, StagedDir, bootID(), strconv.FormatUint(uint64(job), 10)))
}

// partSuffix follows the name of a disk to which files were coming when their run was
// interrupted.
const partSuffix = ".part"

// PartOf names such a disk of a job, which may not be there. Nobody has to need it: if the
// next run that copies the files is on another node, it is deleted some time later.
func PartOf(stateDir string, job uint32) KeptDisk { return KeptOf(stateDir, job) + partSuffix }

// partAge is how long it is kept.
const partAge = 10 * time.Minute

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// keeps says whether a later run of the job may need the disk of one that has ended. What it
// does not need in the end is deleted once the controllers say so.
func keeps(order *pb.StartAlloc, result *pb.AllocEnded) bool {
	done := result.GetCause() == pb.EndCause_END_CAUSE_EXITED && result.GetExitCode() == 0 && result.GetExitSignal() == 0
	switch {
	case !order.GetKeepDisk():
		return false
	case order.GetStages() && order.GetStaged(): // results that are not all away
		return !done
	case order.GetStages():
		return done
	}
	if result.GetCause() == pb.EndCause_END_CAUSE_CANCELLED {
		return len(order.GetAllocation()) > 1 // perhaps because its end was decided elsewhere
	}
	return result.GetCause() != pb.EndCause_END_CAUSE_RECLAIMED
}

// keepsPart says whether the next try may go on with what came to a disk.
func keepsPart(order *pb.StartAlloc, result *pb.AllocEnded) bool {
	if !order.GetKeepDisk() || !order.GetStages() || order.GetStaged() {
		return false
	}
	switch result.GetCause() {
	case pb.EndCause_END_CAUSE_SUPERVISOR_DIED, pb.EndCause_END_CAUSE_LEASE_ENDED:
		return true
	case pb.EndCause_END_CAUSE_CANCELLED:
		return len(order.GetAllocation()) > 1 // perhaps because another node was lost
	}
	return false
}

// KeepDisk puts the allocation's disk, which is not mounted any longer, aside for a later run
// of the job, if that needs it. It may be called again.
func (d Dir) KeepDisk(order *pb.StartAlloc, result *pb.AllocEnded, stateDir string) error {
	kept := KeptOf(stateDir, order.GetAlloc().GetJob())
	switch {
	case keepsPart(order, result):
		kept = PartOf(stateDir, order.GetAlloc().GetJob())
	case !keeps(order, result):
		return nil
	}
	name := DiskFile
	if _, err := os.Lstat(d.Path(name)); errors.Is(err, os.ErrNotExist) {
		name = DiskDir // of a node that does not bound what jobs write
	}
	if _, err := os.Lstat(d.Path(name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := kept.Remove(); err != nil {
		return err
	}
	if err := os.MkdirAll(string(kept), 0o700); err != nil {
		return fmt.Errorf("keep the job's disk: %w", err)
	}
	if err := os.Rename(d.Path(name), filepath.Join(string(kept), name)); err != nil {
		return fmt.Errorf("keep the job's disk: %w", err)
	}
	return nil
}

// looseness is how long the kernel may take to let go of a disk that was unmounted.
const looseness = 10 * time.Second

// Take moves the disk into the directory of an allocation. The error wraps os.ErrNotExist
// if there is none.
func (k KeptDisk) Take(ctx context.Context, d Dir) error {
	entries, err := os.ReadDir(string(k))
	if err != nil {
		return err
	}
	if len(entries) != 1 {
		return &os.PathError{Op: "take", Path: string(k), Err: os.ErrNotExist}
	}
	from := filepath.Join(string(k), entries[0].Name())
	ctx, cancel := context.WithTimeout(ctx, looseness)
	defer cancel()
	for {
		used, err := container.DiskInUse(from)
		if err != nil {
			return err
		}
		if !used {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the job's disk %s is still mounted somewhere: see losetup", from)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := os.Rename(from, d.Path(entries[0].Name())); err != nil {
		return err
	}
	return os.Remove(string(k))
}

// Remove deletes it.
func (k KeptDisk) Remove() error {
	if _, err := os.Lstat(string(k)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return remove.Tree(string(k))
}

// TidyKept deletes the disks of jobs that no later run needs, unless they are younger than
// an age: who says what is needed may not have heard of them. Those of an earlier boot are
// needed by nobody.
func TidyKept(stateDir string, needed func(job uint32) bool, age time.Duration) (deleted int, err error) {
	boots, err := os.ReadDir(filepath.Join(stateDir, StagedDir))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return 0, err
	}
	var failures []error
	for _, boot := range boots {
		dir := filepath.Join(stateDir, StagedDir, boot.Name())
		if boot.Name() != bootID() {
			failures = append(failures, remove.Tree(dir))
			continue
		}
		jobs, err := os.ReadDir(dir)
		failures = append(failures, err)
		for _, entry := range jobs {
			name, part := strings.CutSuffix(entry.Name(), partSuffix)
			job, err := strconv.ParseUint(name, 10, 32)
			info, infoErr := entry.Info()
			young := age
			if part {
				young = max(age, partAge)
			}
			if err == nil && (!part && needed(uint32(job)) || infoErr != nil || time.Since(info.ModTime()) < young) {
				continue
			}
			failures = append(failures, remove.Tree(filepath.Join(dir, entry.Name())))
			deleted++
		}
	}
	return deleted, errors.Join(failures...)
}

// DropRun deletes from a disk that was taken what belonged to the run before alone. The
// overlay's work directory says that its last mount was volatile.
func (d Dir) DropRun() error {
	for _, name := range []string{JobRun, "work"} {
		if err := remove.Tree(d.Path(DiskDir, name)); err != nil {
			return fmt.Errorf("clear what an earlier run of the job left on its disk: %w", err)
		}
	}
	return nil
}
