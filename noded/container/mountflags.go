package container

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// mountOptions are the names that proc_pid_mountinfo(5) has for flags of mount(2).
var mountOptions = map[string]uint32{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC, "nosymfollow": unix.MS_NOSYMFOLLOW,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
}

// setMountFlags has what is mounted at the image's foreign paths be restored with
// the flags that its sources have: this node may have mounted its file systems
// otherwise than the one that made the image, and what it forbids there stays so.
func (i *Image) setMountFlags(sources map[string]string) error {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	options := make(map[uint64]string, len(infos))
	for _, info := range infos {
		options[uint64(info.ID)] = info.Options
	}
	flags := make(map[string]uint32, len(sources))
	for path, source := range sources {
		mount, err := mountOf(source)
		if err != nil {
			return err
		}
		flags[path] = parseMountOptions(options[mount])
	}
	return checkpoint.SetMountFlags(filepath.Join(i.Dir, imageDir), flags)
}

// mountOf answers the id of the mount in which a file lies.
func mountOf(path string) (uint64, error) {
	var stat unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &stat); err != nil {
		return 0, fmt.Errorf("see where %s is mounted: %w", path, err)
	}
	return stat.Mnt_id, nil
}

func parseMountOptions(text string) (flags uint32) {
	for name := range strings.SplitSeq(text, ",") {
		flags |= mountOptions[name] // 0: what is the default, such as rw
	}
	return flags
}
