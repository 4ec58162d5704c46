package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

const (
	// logRoom is what the controller's log takes ahead: without it no job is
	// accepted.
	logRoom = 16 << 20
	// comfort is the room below which a disk is about to be full.
	comfort = 1 << 30
	// leastInodes is what a start of a job needs, and a controller twice over.
	leastInodes = 1024
)

// nearest is the directory, or the nearest above it that exists.
func nearest(dir string) string {
	for dir != "/" {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || errors.Is(err, fs.ErrPermission) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// checkConfigFile refuses a configuration that others can change: what it
// says, root does.
func checkConfigFile(host finding.Host) []finding.Finding {
	name := "configuration file"
	if bad := openToChange(host.Config); bad != "" {
		return []finding.Finding{finding.Bad(name, bad, "who changes it makes root's daemon start any program, or listen to any controller",
			"look at what is in it, then: chown root: "+host.Config+"; chmod 644 "+host.Config)}
	}
	return nil
}

// openToChange says who, apart from root and the caller, may change a file or a
// directory's entries, or "".
func openToChange(path string) string {
	var about unix.Stat_t
	if unix.Stat(path, &about) != nil {
		return ""
	}
	switch mode := about.Mode & 0o7777; {
	case about.Uid != 0 && int(about.Uid) != os.Geteuid():
		return fmt.Sprintf("%s belongs to user %d", path, about.Uid)
	case mode&0o022 != 0:
		return fmt.Sprintf("%s has mode %04o: others may change it", path, mode)
	}
	return ""
}

// fileSystems are the names of the kernel's magic numbers, statfs(2).
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.NFS_SUPER_MAGIC: "nfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.FUSE_SUPER_MAGIC: "fuse", unix.SMB2_SUPER_MAGIC: "cifs",
	unix.CEPH_SUPER_MAGIC: "ceph", 0x0bd00bd0: "lustre", 0x47504653: "gpfs", 0x2fc12fc1: "zfs", unix.F2FS_SUPER_MAGIC: "f2fs",
}

// networked have their bytes on another machine.
var networked = []string{"nfs", "cifs", "ceph", "lustre", "gpfs", "fuse"}

// checkDisk looks at the file system of a daemon's directory.
func checkDisk(host finding.Host) []finding.Finding {
	name := "disk of " + host.Directory
	dir := nearest(host.Directory)
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return []finding.Finding{finding.Unseen(name, "only root can look: sudo gdoctor")}
		}
		return []finding.Finding{finding.Bad(name, fmt.Sprintf("%s: %v", dir, err), "the daemon does not start", "see dmesg | tail, and remount it")}
	}
	found := []finding.Finding{judgeDisk(name, host, &disk)}
	if bad := openToChange(host.Directory); bad != "" && host.Role == finding.Node { // gctld looks itself
		found = append(found, finding.Bad(name, bad, "who changes it can pass for a job's supervisor", "see what is in it, then: chown root: "+dir+"; chmod 711 "+dir))
	}
	return found
}

func judgeDisk(name string, host finding.Host, disk *unix.Statfs_t) finding.Finding {
	kind := fileSystems[int64(uint32(disk.Type))]
	if kind == "" {
		kind = fmt.Sprintf("a file system of type %#x", uint32(disk.Type))
	}
	free := disk.Bavail * uint64(disk.Bsize)
	seen := fmt.Sprintf("%s, %s free", kind, finding.Bytes(free))
	if disk.Files > 0 {
		seen += fmt.Sprintf(", %d inodes free", disk.Ffree)
	}
	node := host.Role == finding.Node
	need, means := uint64(logRoom), "no job is accepted, and the controller may lose the lead"
	if node {
		need, means = host.MinFreeBytes, "no job is started here"
	}
	clear := "see what fills it: du -xh --max-depth=2 " + nearest(host.Directory) + " | sort -h | tail; or mount a disk of its own there"
	remount := "mount -o remount,%s " + nearest(host.Directory) + ", and correct /etc/fstab"
	switch {
	case disk.Flags&unix.ST_RDONLY != 0:
		return finding.Bad(name, seen+"; it is mounted read-only", means, "see why in dmesg | tail; "+fmt.Sprintf(remount, "rw"))
	case node && disk.Flags&unix.ST_NOEXEC != 0:
		return finding.Bad(name, seen+"; it is mounted noexec", "scripts of jobs are there, and cannot be executed", fmt.Sprintf(remount, "exec"))
	case free < need:
		return finding.Bad(name, fmt.Sprintf("%s, and %s are needed", seen, finding.Bytes(need)), means, clear)
	case disk.Files > 0 && disk.Ffree < leastInodes:
		return finding.Bad(name, fmt.Sprintf("%s, and %d are needed", seen, leastInodes), means, clear)
	case slices.Contains(networked, kind):
		return finding.Doubtful(name, seen, "the daemon hangs when that server does; locks and syncs may not be what they are on a disk", "use a directory on a local disk")
	case kind == "tmpfs" && !node:
		return finding.Doubtful(name, seen+"; it is memory", "the queue is gone after a restart of the machine", "use a directory on a local disk")
	case free < max(comfort, 2*need):
		return finding.Doubtful(name, seen, "it will be full soon", clear)
	}
	return finding.Good(name, seen)
}

const (
	timingLimit = 15 * time.Second
	timingTime  = time.Second
	timingMost  = 2000 // syncs
	record      = 4096 // bytes of one
	// A submission waits for a sync on a majority of the controllers; a leader
	// whose disk hangs for an election's time is replaced.
	slowUsual   = 10 * time.Millisecond
	slowSeldom  = 100 * time.Millisecond
	tooSlow     = 500 * time.Millisecond
	fewestSyncs = 5
)

// checkSpeed times writes that are made durable, as the controller's log and
// the results of jobs are, and whether room can be taken ahead.
func checkSpeed(ctx context.Context, host finding.Host) []finding.Finding {
	name := "speed of " + host.Directory
	dir := nearest(host.Directory)
	file, err := os.CreateTemp(dir, "gleaner-doctor-")
	if err != nil {
		return []finding.Finding{finding.Unseen(name, fmt.Sprintf("nothing can be written there: %v", err))}
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil { // it goes with the descriptor, whatever happens
		return []finding.Finding{finding.Doubtful(name, err.Error(), "a file of this examination is left", "rm "+file.Name())}
	}
	var found []finding.Finding
	if err := unix.Fallocate(int(file.Fd()), 0, 0, 1<<20); err != nil && host.Role == finding.Controller {
		found = append(found, finding.Doubtful("room ahead in "+host.Directory, fmt.Sprintf("fallocate: %v", err),
			"the controller cannot take room for its log before it accepts a job: a full disk stops it instead", "use ext4, xfs or btrfs"))
	}
	times, err := timeSyncs(ctx, file)
	if err != nil {
		return append(found, finding.Bad(name, err.Error(), "what is accepted is not durable", "see dmesg | tail"))
	}
	return append(found, judgeSpeed(name, host.Role, times))
}

func timeSyncs(ctx context.Context, file *os.File) (times []time.Duration, err error) {
	block := make([]byte, record)
	for began := time.Now(); len(times) < fewestSyncs || time.Since(began) < timingTime && len(times) < timingMost; {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d small writes took %v to become durable", len(times)+1, time.Since(began).Round(time.Second))
		}
		at := time.Now()
		if _, err := file.WriteAt(block, int64(len(times)*record)); err != nil {
			return nil, fmt.Errorf("write: %w", err)
		}
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return nil, fmt.Errorf("sync: %w", err)
		}
		times = append(times, time.Since(at))
	}
	slices.Sort(times)
	return times, nil
}

// judgeSpeed takes times in ascending order.
func judgeSpeed(name, role string, times []time.Duration) finding.Finding {
	usual, seldom := times[len(times)/2], times[min(len(times)*99/100, len(times)-1)]
	seen := fmt.Sprintf("a write is durable after %v (half of them), %v (99 in 100); %d were timed", short(usual), short(seldom), len(times))
	fix := "give it a disk of its own, best an SSD with power-loss protection; see who else writes: iotop -o"
	if role == finding.Node {
		if seldom > tooSlow {
			return finding.Doubtful(name, seen, "starts and ends of jobs take that much longer", fix)
		}
		return finding.Good(name, seen)
	}
	switch {
	case usual > tooSlow:
		return finding.Bad(name, seen, "leaders are replaced again and again, and submissions time out", fix)
	case usual > slowUsual, seldom > slowSeldom:
		return finding.Doubtful(name, seen, "each submission waits that long", fix)
	}
	return finding.Good(name, seen)
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
