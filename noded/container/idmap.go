package container

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/opencontainers/runc/libcontainer/configs"
)

// A container's user namespace maps the job's user and all its groups to
// themselves, and every other id below MappedIDs to HostIDBase and up, where
// nobody lives. So root inside is no one outside.
//
// HostIDBase lies above what systemd gives to containers (up to 1879048191)
// and sssd to directory users (up to 2000200000), and below 2^31.
const (
	HostIDBase = 2_100_000_000
	MappedIDs  = 65536
	// maxMapBytes is what the kernel takes as a map: less than one page.
	maxMapBytes = 4096
	maxExtents  = 340
)

// hole is a range of ids between those that stay in place.
type hole struct{ inside, outside, size int64 }

// mapIDs answers the map of a container that leaves own in place. When a user
// has so many scattered groups that the kernel's map has no room for all the
// ranges between them, the smallest of these are left out: files of their
// owners look like nobody's.
func mapIDs(own []uint32) ([]configs.IDMap, error) {
	return fitMap(own, []hole{{0, HostIDBase, MappedIDs}})
}

// mapMountIDs answers the map for idmapped mounts of the same container: all
// other ids stay the same. Without them the kernel would refuse to write, for
// example, to what a directory user owns and the job's group may write.
// If there is no room for that, it is the container's own map.
func mapMountIDs(own []uint32) ([]configs.IDMap, error) {
	const last = 1<<32 - 2 // the highest id; above it is "none"
	return fitMap(own, []hole{
		{0, HostIDBase, MappedIDs}, {MappedIDs, MappedIDs, HostIDBase - MappedIDs},
		{HostIDBase + MappedIDs, HostIDBase + MappedIDs, last - (HostIDBase + MappedIDs) + 1},
	})
}

// fitMap answers a map with own in place and as much of the ranges around
// them as there is room for: the one with id 0 first, then the largest.
func fitMap(own []uint32, ranges []hole) ([]configs.IDMap, error) {
	own = slices.Clone(own)
	slices.Sort(own)
	own = slices.Compact(own)
	var holes []hole
	for _, r := range ranges {
		for _, id := range own {
			if id := int64(id); id >= r.inside && id < r.inside+r.size {
				if n := id - r.inside; n > 0 {
					holes = append(holes, hole{r.inside, r.outside, n})
				}
				n := id - r.inside + 1
				r = hole{r.inside + n, r.outside + n, r.size - n}
			}
		}
		if r.size > 0 {
			holes = append(holes, r)
		}
	}
	slices.SortStableFunc(holes, func(a, b hole) int {
		if (a.inside == 0) != (b.inside == 0) {
			return cmp.Compare(a.inside, b.inside)
		}
		return cmp.Compare(b.size, a.size)
	})
	var extents []configs.IDMap
	for _, id := range own {
		if id >= HostIDBase && id < HostIDBase+MappedIDs {
			return nil, fmt.Errorf("%w: id %d lies in the range %d to %d, which containers use for other users",
				ErrUser, id, HostIDBase, HostIDBase+MappedIDs-1)
		}
		if n := len(extents); n > 0 && extents[n-1].ContainerID+extents[n-1].Size == int64(id) {
			extents[n-1].Size++
			continue
		}
		extents = append(extents, configs.IDMap{ContainerID: int64(id), HostID: int64(id), Size: 1})
	}
	room := maxMapBytes - 1 - mapBytes(extents)
	for _, h := range holes {
		extent := configs.IDMap{ContainerID: h.inside, HostID: h.outside, Size: h.size}
		bytes := mapBytes([]configs.IDMap{extent})
		if len(extents) >= maxExtents || bytes > room {
			if h.inside == 0 {
				room = -1 // without a root there is no container
			}
			break
		}
		room -= bytes
		extents = append(extents, extent)
	}
	if room < 0 || len(extents) > maxExtents {
		return nil, fmt.Errorf("%w: it has %d groups, and the kernel's map of a user namespace has no room for so many that are scattered",
			ErrUser, len(own))
	}
	slices.SortFunc(extents, func(a, b configs.IDMap) int { return cmp.Compare(a.ContainerID, b.ContainerID) })
	return extents, nil
}

// mapBytes is the length of the map as it is written to the kernel.
func mapBytes(extents []configs.IDMap) int { return len(mapText(extents)) }

// hostID answers the id outside of an id inside.
func hostID(extents []configs.IDMap, id int64) int {
	for _, e := range extents {
		if id >= e.ContainerID && id < e.ContainerID+e.Size {
			return int(e.HostID + id - e.ContainerID)
		}
	}
	return -1
}
