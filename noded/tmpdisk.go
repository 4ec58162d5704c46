package noded

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Of what is free on the disk of the state directory jobs may have so many allocations of
// four. The rest is for their images, for the daemon, and for whoever else writes
// there.
const tmpQuarters = 3

// tmpShare: a job that does not say how much it writes has one allocation in so many of
// what falls to its CPUs. So those that are suspended, or ask for more, have room
// beside those that fill the CPUs.
const tmpShare = 2

// unboundedTmp is what an administrator writes who wants no bound.
const unboundedTmp = "unbounded"

// tmpDisk is what jobs may write to the node's disk.
type tmpDisk struct {
	bytes     uint64 // all jobs together
	perCPU    uint64 // a job, for each of its CPUs, if it does not say
	unbounded bool   // one job may fill the disk
}

func (f *configFile) checkTmpDisk(c *Config) error {
	if f.TmpDisk == unboundedTmp {
		c.TmpUnbounded = true
		if f.DefTmpPerCPU != "" {
			return fmt.Errorf("def_tmp_per_cpu and tmp_disk = %q exclude each other: give tmp_disk a size, or leave def_tmp_per_cpu out", unboundedTmp)
		}
		return nil
	}
	var err error
	if f.TmpDisk != "" {
		if c.TmpDiskBytes, err = parseMemory("tmp_disk", f.TmpDisk); err != nil {
			return fmt.Errorf("%w; or %q for jobs that may fill the disk", err, unboundedTmp)
		}
	}
	if f.DefTmpPerCPU != "" {
		c.DefTmpPerCPU, err = parseMemory("def_tmp_per_cpu", f.DefTmpPerCPU)
	}
	return err
}

// findTmpDisk finds out what jobs may write, in MiB as Slurm has it, from what the
// configuration says and from what is free, disks of jobs not counted.
func findTmpDisk(c *Config, cpus int) (tmpDisk, error) {
	t := tmpDisk{unbounded: c.TmpUnbounded}
	var fs unix.Statfs_t
	if err := unix.Statfs(existingParent(c.StateDir), &fs); err != nil {
		return t, fmt.Errorf("see how large the disk of state_dir %s is: %w", c.StateDir, err)
	}
	all := fs.Blocks * uint64(fs.Bsize)
	switch {
	case t.unbounded:
		t.bytes = all
	case c.TmpDiskBytes > all:
		return t, fmt.Errorf("tmp_disk %s is more than the %s of the disk that state_dir %s is on: leave it out to offer what there is",
			spec.FormatSize(c.TmpDiskBytes), spec.FormatSize(all), c.StateDir)
	case c.TmpDiskBytes > 0:
		t.bytes = c.TmpDiskBytes
	default:
		t.bytes = (fs.Bavail*uint64(fs.Bsize) + client.DiskBytes(c.StateDir)) / 4 * tmpQuarters
	}
	t.bytes -= t.bytes % mebibyte
	if t.unbounded {
		return t, nil
	}
	if t.perCPU = c.DefTmpPerCPU; t.perCPU == 0 {
		t.perCPU = t.bytes / uint64(tmpShare*max(cpus, 1))
	}
	if most := t.bytes / uint64(max(cpus, 1)); t.perCPU > most {
		return t, fmt.Errorf("def_tmp_per_cpu %s is too much: for %d CPUs tmp_disk, %s, has room for %s each",
			spec.FormatSize(t.perCPU), cpus, spec.FormatSize(t.bytes), spec.FormatSize(most))
	}
	if t.bytes < container.LeastDiskBytes {
		return t, fmt.Errorf("the disk that state_dir %s is on has no room for what jobs write: free some space, or put state_dir elsewhere", c.StateDir)
	}
	return t, nil
}

// existingParent answers a path, or the nearest above it that exists.
func existingParent(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == "/" {
			return path
		}
		path = filepath.Dir(path)
	}
}
