package checkpoint

import (
	"path"
	"path/filepath"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/mnt"
	"golang.org/x/sys/unix"
)

// CRIU gives each mount the flags that it had, also what the host has mounted at a
// path. In a user namespace the kernel refuses to change whether times of access are
// written: so whoever makes these mounts for a restore makes them as they were,
// though this node's file systems are mounted otherwise.

// AccessTimes answers, for each path inside at which an image has a mount, how times
// of access were written there, as mount_setattr(2) wants it: to be cleared first is
// AccessTimeMask. Paths of which nothing was said are left out.
func AccessTimes(images string) (map[string]uint64, error) {
	found := map[string]uint64{}
	tables, err := filepath.Glob(filepath.Join(images, "mountpoints-*.img"))
	if err != nil {
		return nil, err
	}
	for _, table := range tables {
		mounts, err := readEntries[mnt.MntEntry](table)
		if err != nil {
			return nil, err
		}
		for _, m := range mounts {
			if attr, said := accessTime(m.GetFlags()); said {
				found[path.Clean("/"+m.GetMountpoint())] = attr
			}
		}
	}
	return found, nil
}

// AccessTimeMask is all that AccessTimes speaks of.
const AccessTimeMask = unix.MOUNT_ATTR__ATIME | unix.MOUNT_ATTR_NODIRATIME

// accessTime translates the flags of mount(2).
func accessTime(flags uint32) (attr uint64, said bool) {
	switch {
	case flags&unix.MS_NOATIME != 0:
		attr, said = unix.MOUNT_ATTR_NOATIME, true
	case flags&unix.MS_STRICTATIME != 0:
		attr, said = unix.MOUNT_ATTR_STRICTATIME, true
	case flags&unix.MS_RELATIME != 0:
		attr, said = unix.MOUNT_ATTR_RELATIME, true
	}
	if flags&unix.MS_NODIRATIME != 0 {
		attr |= unix.MOUNT_ATTR_NODIRATIME
	}
	return attr, said
}
