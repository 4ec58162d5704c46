package cgroup

import "errors"

var (
	// ErrNotFound is returned when a group exists in no hierarchy.
	ErrNotFound = errors.New("no such cgroup")
	// ErrBusy is returned by Remove when processes remain in the group, and by
	// Kill when some are still there at the end of its context.
	ErrBusy = errors.New("processes remain in the cgroup")
	// ErrBadPath is returned for a path that is not absolute, not clean, or
	// the root of the hierarchy.
	ErrBadPath = errors.New("a cgroup path must be absolute, clean and below the root, like /batch/12.1")
	// ErrUnsupported is returned when this machine's control groups cannot be
	// used: none are mounted, or v1 without the devices controller.
	ErrUnsupported = errors.New("control groups are not usable on this machine: mount cgroup2, or the v1 hierarchies including devices, below /sys/fs/cgroup")
	// ErrNoUnified is returned by UnifiedDirectory where only v1 hierarchies are mounted.
	ErrNoUnified = errors.New("no v2 hierarchy is mounted beside those of v1: mount -t cgroup2 none /sys/fs/cgroup/unified")
	// ErrNoFreezer is returned by Freeze where the kernel has no freezer.
	ErrNoFreezer = errors.New("this machine has no cgroup freezer")
	// ErrOccupied is returned by Prepare when controllers cannot reach the
	// groups below: cgroup v2 takes them from groups that have processes of
	// their own, except from the machine's root.
	ErrOccupied = errors.New("on cgroup v2 such a group cannot limit groups below it: name a parent for them elsewhere, or move its processes into a group of their own")
)
