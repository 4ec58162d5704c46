package checkpoint

import (
	"path"
	"path/filepath"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/mnt"
	"golang.org/x/sys/unix"
)

// mountFlags are those of mount(2) that belong to one mount of a file system, and
// not to the file system.
const mountFlags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSYMFOLLOW |
	unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME | unix.MS_STRICTATIME

// SetMountFlags changes in an image the flags of mount(2) of the mounts at these paths
// inside. CRIU gives each mount the flags that it had, also a mount of the host's. In a
// user namespace the kernel does not let CRIU lift what such a mount forbids (devices,
// programs), or change when access times are written. So a mount that has other flags
// here is restored with the flags that it has here.
func SetMountFlags(images string, flags map[string]uint32) error {
	tables, err := filepath.Glob(filepath.Join(images, "mountpoints-*.img"))
	if err != nil {
		return err
	}
	for _, table := range tables {
		err := changeEntries(table, func(m *mnt.MntEntry) bool {
			here, known := flags[path.Clean("/"+m.GetMountpoint())]
			wanted := m.GetFlags()&^mountFlags | here&mountFlags
			if !known || wanted == m.GetFlags() {
				return false
			}
			m.Flags = &wanted
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}
