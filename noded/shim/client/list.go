package client

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/network"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
)

// List answers all allocations on disk, in the order of job and epoch, and those
// that have the name of one but cannot be used.
func List(stateDir, cgroupParent string) ([]*Handle, []*Damaged, error) {
	parent := filepath.Join(stateDir, bundle.JobsDir)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list the allocations: %w", err)
	}
	var handles []*Handle
	var damaged []*Damaged
	for _, entry := range entries {
		id := bundle.ParseID(entry.Name())
		if id == nil {
			continue
		}
		dir := bundle.Dir(filepath.Join(parent, entry.Name()))
		h, err := open(dir)
		switch {
		case err == nil:
			handles = append(handles, h)
		case isThere(string(dir)): // otherwise it was forgotten meanwhile
			damaged = append(damaged, &Damaged{dir: dir, alloc: id, group: path.Join(cgroupParent, dir.ID()), why: err})
		}
	}
	slices.SortFunc(handles, func(a, b *Handle) int {
		x, y := a.order.Alloc, b.order.Alloc
		return cmp.Or(cmp.Compare(x.Job, y.Job), cmp.Compare(x.Epoch, y.Epoch))
	})
	return handles, damaged, nil
}

// Sweep removes what belongs to no allocation: directories that are half made or
// half deleted, links of their networks, and control groups below cgroupParent without a
// process. It
// answers what is there next to the allocations and stays. isAlloc says whether a
// name, JOB.EPOCH, is that of an allocation that somebody looks after. Nobody may launch
// or list allocations meanwhile.
func Sweep(stateDir, cgroupParent string, isAlloc func(name string) bool) []*remove.LeftOver {
	jobs := filepath.Join(stateDir, bundle.JobsDir)
	left := append(sweepDirectories(jobs, isAlloc), sweepGroups(cgroupParent, isAlloc)...)
	return appendLeft(left, "the network of a job", network.Sweep(jobs, isAlloc))
}

func sweepDirectories(parent string, isAlloc func(string) bool) []*remove.LeftOver {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []*remove.LeftOver{{Path: parent, Err: err}}
	}
	var left []*remove.LeftOver
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), bundle.NewPrefix), strings.HasPrefix(entry.Name(), bundle.GonePrefix):
			left = appendLeft(left, path, remove.Discard(path))
		case !isAlloc(entry.Name()) && isThere(path):
			left = append(left, &remove.LeftOver{Path: path, Err: errors.New("it is no allocation of a job that this daemon knows: remove it by hand")})
		}
	}
	return left
}

// sweepGroups kills nothing: two nodes that have one cgroup_parent by mistake
// must not end each other's jobs.
func sweepGroups(parent string, isAlloc func(string) bool) []*remove.LeftOver {
	names, err := cgroup.List(parent)
	if err != nil {
		return []*remove.LeftOver{{Path: "cgroup " + parent, Err: err}}
	}
	var left []*remove.LeftOver
	for _, name := range names {
		group := cgroup.New(path.Join(parent, name), cgroup.Limits{})
		if bundle.ParseID(name) == nil || isAlloc(name) {
			continue
		}
		err := group.Remove()
		if errors.Is(err, cgroup.ErrBusy) {
			err = fmt.Errorf("processes run in it, but no allocation of a job on this node has its name: see whether another node has the same cgroup_parent, else end them: %w", err)
		}
		left = appendLeft(left, "cgroup "+group.Path(), err)
	}
	return left
}

// appendLeft adds what err says is left, at path unless it says where.
func appendLeft(left []*remove.LeftOver, path string, err error) []*remove.LeftOver {
	var here *remove.LeftOver
	switch {
	case err == nil:
		return left
	case errors.As(err, &here):
		return append(left, here)
	default:
		return append(left, &remove.LeftOver{Path: path, Err: err})
	}
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
