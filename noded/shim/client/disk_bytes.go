package client

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// DiskBytes is how much of the node's disk the disks of all allocations below stateDir use,
// and those that are kept between two runs of a job.
func DiskBytes(stateDir string) uint64 {
	files, _ := filepath.Glob(filepath.Join(stateDir, bundle.JobsDir, "*", bundle.DiskFile))
	kept, _ := filepath.Glob(filepath.Join(stateDir, bundle.StagedDir, "*", "*", bundle.DiskFile))
	all := uint64(0)
	for _, file := range append(files, kept...) {
		var stat unix.Stat_t
		if unix.Lstat(file, &stat) == nil {
			all += uint64(stat.Blocks) * 512
		}
	}
	return all
}
