package container

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// systemDirs are the directories whose file systems belong to the root, when
// the host has mounted some of them separately.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc", "/var", "/nix", "/gnu"}

// foreignDirs hold the mounts of other container systems, of packages that
// bring their own root, and of the boot loader.
var foreignDirs = []string{
	"/var/lib/docker", "/var/lib/containers", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/rancher",
	"/var/lib/lxc", "/var/lib/lxd", "/var/lib/lxcfs", "/var/lib/incus", "/var/lib/machines", "/var/lib/snapd",
	"/var/lib/nfs", "/var/run", "/var/lock", "/snap", "/boot", "/efi",
}

// pseudoTypes are file systems, in addition to the kernel's own, that hold no files of a
// system. An overlay is somebody's container, wherever its engine keeps it.
var pseudoTypes = map[string]bool{
	"ramfs": true, "overlay": true, "fuse.lxcfs": true, "fuse.portal": true, "fuse.gvfsd-fuse": true, "fuse.snapfuse": true,
}

// networkTypes are file systems whose server may be away: nobody may look at anything in
// them for a job that does not use them. fuse.* is one as well.
var networkTypes = []string{
	"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p", "afs", "orangefs", "pvfs2", "panfs", "wekafs", "virtiofs", "fuse", "fuseblk",
}

// hostMount is a file system of the host that a container shows at the same
// path.
type hostMount struct {
	id      int // of the mount, in the caller's namespace
	path    string
	kind    string // of file system
	system  bool   // part of the root
	network bool   // its server may be away
	users   bool   // mounted by a user, by FUSE
}

// hostMounts answers the further file systems of the host that a container
// shows a user, parents first. What lies at or below one of exclude is left out.
func hostMounts(exclude []string, uid uint32) ([]hostMount, error) {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return selectMounts(infos, exclude, uid), nil
}

func selectMounts(infos []*mountinfo.Info, exclude []string, uid uint32) []hostMount {
	below := func(path string, dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return within(path, dir) })
	}
	visible := visibleMounts(infos)
	var selected []hostMount
	for _, info := range infos {
		path := info.Mountpoint
		switch {
		case path == "/", !visible[info.ID], pseudoTypes[info.FSType], userpath.IsKernels(info.FSType):
		case isPrivate(path), below(path, foreignDirs), below(path, exclude):
		case strings.HasSuffix(info.Root, "//deleted"): // cannot be mounted anywhere again
		case info.FSType == "tmpfs" && info.Source == "shm": // the /dev/shm of a container
		default:
			owner, shownTo := fuseOwner(info)
			if !shownTo(uid) {
				continue
			}
			selected = append(selected, hostMount{
				id: info.ID, path: path, kind: info.FSType, system: below(path, systemDirs), network: isNetwork(info.FSType), users: owner != 0,
			})
		}
	}
	slices.SortStableFunc(selected, func(a, b hostMount) int { return cmp.Compare(a.path+"/", b.path+"/") })
	// A network file system comes with all that is mounted below it, because
	// finding what is below would ask its server.
	var kept []hostMount
	for _, m := range selected {
		inNetwork := func(above hostMount) bool { return above.network && within(m.path, above.path) }
		if !slices.ContainsFunc(kept, inNetwork) {
			kept = append(kept, m)
		}
	}
	return kept
}

// fuseOwner answers who has mounted a FUSE file system, and to whom it is shown.
// Without allow_other it admits only its owner: not root, and so nobody who restores a
// job that has it. Another user's might vanish or stop answering at any time, and would
// then prevent everybody's jobs from moving.
func fuseOwner(info *mountinfo.Info) (owner uint32, shownTo func(uid uint32) bool) {
	if info.FSType != "fuse" && info.FSType != "fuseblk" && !strings.HasPrefix(info.FSType, "fuse.") {
		return 0, func(uint32) bool { return true }
	}
	options := strings.Split(info.VFSOptions, ",")
	for _, option := range options {
		if text, ok := strings.CutPrefix(option, "user_id="); ok {
			id, _ := strconv.ParseUint(text, 10, 32)
			owner = uint32(id)
		}
	}
	all := slices.Contains(options, "allow_other")
	return owner, func(uid uint32) bool { return all && (owner == 0 || owner == uid) }
}

func isNetwork(fsType string) bool {
	return slices.Contains(networkTypes, fsType) || strings.HasPrefix(fsType, "fuse.")
}

// visibleMounts answers the ids of the mounts that their paths lead to: those
// that no later mount covers, nor those they are mounted in.
func visibleMounts(infos []*mountinfo.Info) map[int]bool {
	type place struct {
		parent int
		path   string
	}
	byID := make(map[int]*mountinfo.Info, len(infos))
	top := make(map[place]int, len(infos)) // the last mount at each place
	for _, info := range infos {
		byID[info.ID] = info
		top[place{info.Parent, info.Mountpoint}] = info.ID
	}
	// coveredBy answers what is mounted on the mount's own root.
	coveredBy := func(info *mountinfo.Info) (int, bool) {
		id, ok := top[place{info.ID, info.Mountpoint}]
		return id, ok && id != info.ID
	}
	reached := make(map[int]bool, len(infos))
	var reach func(info *mountinfo.Info) bool // whatever is mounted on its own root
	reach = func(info *mountinfo.Info) bool {
		if known, ok := reached[info.ID]; ok {
			return known
		}
		reached[info.ID] = false // ends the search if parents form a ring
		parent, ok := byID[info.Parent]
		result := !ok || parent == info || reach(parent)
		if ok && parent != info {
			id, covered := coveredBy(parent)
			result = result && (!covered || id == info.ID)
			for path := info.Mountpoint; result && path != parent.Mountpoint && path != "/"; path = filepath.Dir(path) {
				if id, taken := top[place{parent.ID, path}]; taken && id != info.ID {
					result = false
				}
			}
		}
		reached[info.ID] = result
		return result
	}
	visible := make(map[int]bool, len(infos))
	for _, info := range infos {
		_, covered := coveredBy(info)
		visible[info.ID] = reach(info) && !covered
	}
	return visible
}
