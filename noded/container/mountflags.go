package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// mountOptions are the names that proc_pid_mountinfo(5) has for flags of mount(2).
var mountOptions = map[string]uint32{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC, "nosymfollow": unix.MS_NOSYMFOLLOW,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
}

// setMountFlags gives the mounts at the image's foreign paths the flags of their sources
// here: this node may have mounted its file systems with other flags than the node that
// made the image, and what it forbids there stays forbidden.
func (i *Image) setMountFlags(sources map[string]source) error {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	options := make(map[uint64]string, len(infos))
	for _, info := range infos {
		options[uint64(info.ID)] = info.Options
	}
	flags := make(map[string]uint32, len(sources))
	for path, from := range sources {
		mount, err := mountOf(from.path)
		if err != nil {
			return err
		}
		flags[path] = parseMountOptions(options[mount])
	}
	return checkpoint.SetMountFlags(filepath.Join(i.Dir, imageDir), flags)
}

// mountOf answers the id of the mount of a file in the stage.
func mountOf(path string) (uint64, error) {
	file, err := os.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	id, err := userpath.MountID(file)
	return uint64(id), err
}

func parseMountOptions(text string) (flags uint32) {
	for name := range strings.SplitSeq(text, ",") {
		flags |= mountOptions[name] // 0: what is the default, such as rw
	}
	return flags
}
