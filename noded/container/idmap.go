package container

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"github.com/opencontainers/runc/libcontainer/configs"
)

// A container's user namespace maps the job's user and all its groups to
// themselves, and every other id below mappedIDs to HostIDBase and up, where
// nobody lives. So root inside is no one outside.
//
// HostIDBase lies above what systemd gives to containers (up to 1879048191)
// and sssd to directory users (up to 2000200000), and below 2^31.
const (
	HostIDBase = 2_100_000_000
	mappedIDs  = 65536
	// maxMapBytes is what the kernel takes as a map: less than one page.
	maxMapBytes = 4096
	maxExtents  = 340
)

// mapIDs answers the map that leaves own in place.
func mapIDs(own []uint32) ([]configs.IDMap, error) {
	own = slices.Clone(own)
	slices.Sort(own)
	own = slices.Compact(own)
	var extents []configs.IDMap
	add := func(inside, outside, size int64) {
		if n := len(extents); n > 0 {
			last := &extents[n-1]
			if last.ContainerID+last.Size == inside && last.HostID+last.Size == outside {
				last.Size += size
				return
			}
		}
		extents = append(extents, configs.IDMap{ContainerID: inside, HostID: outside, Size: size})
	}
	next := int64(0)
	for _, id := range own {
		id := int64(id)
		if id >= HostIDBase && id < HostIDBase+mappedIDs {
			return nil, fmt.Errorf("%w: id %d lies in the range %d to %d, which containers use for other users",
				ErrUser, id, HostIDBase, HostIDBase+mappedIDs-1)
		}
		if end := min(id, mappedIDs); end > next {
			add(next, HostIDBase+next, end-next)
		}
		add(id, id, 1)
		next = id + 1
	}
	if next < mappedIDs {
		add(next, HostIDBase+next, mappedIDs-next)
	}
	if bytes := mapBytes(extents); len(extents) > maxExtents || bytes >= maxMapBytes {
		return nil, fmt.Errorf("%w: it has %d groups, and the kernel's map of a user namespace has no room for them (%d bytes of %d)",
			ErrUser, len(own), bytes, maxMapBytes-1)
	}
	return extents, nil
}

// mapBytes is the length of the map as it is written to the kernel.
func mapBytes(extents []configs.IDMap) int {
	n := 0
	for _, e := range extents {
		n += len(fmt.Sprintf("%d %d %d\n", e.ContainerID, e.HostID, e.Size))
	}
	return n
}

// hostID answers what id inside is outside.
func hostID(extents []configs.IDMap, id int64) int {
	for _, e := range extents {
		if id >= e.ContainerID && id < e.ContainerID+e.Size {
			return int(e.HostID + id - e.ContainerID)
		}
	}
	return -1
}

// userNamespace makes a user namespace with these maps and answers a
// descriptor of it, for idmapped mounts. The process that carries it is
// stopped by ptrace before its first instruction, and killed.
func userNamespace(uids, gids []configs.IDMap) (*os.File, error) {
	runtime.LockOSThread() // ptrace belongs to a thread
	defer runtime.UnlockOSThread()
	process, err := os.StartProcess("/proc/self/exe", []string{"userns"}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags:                 syscall.CLONE_NEWUSER,
			UidMappings:                sysMap(uids),
			GidMappings:                sysMap(gids),
			GidMappingsEnableSetgroups: true,
			Ptrace:                     true,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	defer func() {
		_ = process.Kill()
		_, _ = process.Wait()
	}()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", process.Pid))
	if err != nil {
		return nil, fmt.Errorf("open a user namespace: %w", err)
	}
	return ns, nil
}

func sysMap(extents []configs.IDMap) []syscall.SysProcIDMap {
	result := make([]syscall.SysProcIDMap, len(extents))
	for i, e := range extents {
		result[i] = syscall.SysProcIDMap{ContainerID: int(e.ContainerID), HostID: int(e.HostID), Size: int(e.Size)}
	}
	return result
}
