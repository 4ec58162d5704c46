package shim

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cgroup"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// List answers all parts on disk, in the order of job and epoch, and those
// that have the name of one but cannot be used.
func List(stateDir, cgroupParent string) ([]*Handle, []*Damaged, error) {
	parent := filepath.Join(stateDir, jobsDir)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list the parts: %w", err)
	}
	var handles []*Handle
	var damaged []*Damaged
	for _, entry := range entries {
		id := parsePartName(entry.Name())
		if id == nil {
			continue
		}
		dir := directory(filepath.Join(parent, entry.Name()))
		h, err := open(dir)
		switch {
		case err == nil:
			handles = append(handles, h)
		case exists(string(dir)): // else forgotten meanwhile
			damaged = append(damaged, &Damaged{dir: dir, part: id, group: path.Join(cgroupParent, dir.id()), why: err})
		}
	}
	slices.SortFunc(handles, func(a, b *Handle) int {
		x, y := a.order.Part, b.order.Part
		return cmp.Or(cmp.Compare(x.Job, y.Job), cmp.Compare(x.Epoch, y.Epoch))
	})
	return handles, damaged, nil
}

// Sweep removes what belongs to no part: directories that are half made or
// half deleted, and control groups below cgroupParent without a process. It
// answers what is there beside the parts and stays. isPart says whether a
// name, JOB.EPOCH, is of a part that somebody looks after. Nobody may launch
// or list parts meanwhile.
func Sweep(stateDir, cgroupParent string, isPart func(name string) bool) []*LeftOver {
	return append(sweepDirectories(filepath.Join(stateDir, jobsDir), isPart), sweepGroups(cgroupParent, isPart)...)
}

func sweepDirectories(parent string, isPart func(string) bool) []*LeftOver {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []*LeftOver{{Path: parent, Err: err}}
	}
	var left []*LeftOver
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), newPrefix), strings.HasPrefix(entry.Name(), gonePrefix):
			left = appendLeft(left, path, removeGone(path))
		case !isPart(entry.Name()) && exists(path):
			left = append(left, &LeftOver{Path: path, Err: errors.New("it is no part of a job that this daemon knows: remove it by hand")})
		}
	}
	return left
}

// sweepGroups kills nothing: two nodes that have one cgroup_parent by mistake
// must not end each other's jobs.
func sweepGroups(parent string, isPart func(string) bool) []*LeftOver {
	names, err := cgroup.List(parent)
	if err != nil {
		return []*LeftOver{{Path: "cgroup " + parent, Err: err}}
	}
	var left []*LeftOver
	for _, name := range names {
		group := cgroup.New(path.Join(parent, name), cgroup.Limits{})
		if parsePartName(name) == nil || isPart(name) {
			continue
		}
		err := group.Remove()
		if errors.Is(err, cgroup.ErrBusy) {
			err = fmt.Errorf("processes run in it, but no part of a job on this node has its name: see whether another node has the same cgroup_parent, else end them: %w", err)
		}
		left = appendLeft(left, "cgroup "+group.Path(), err)
	}
	return left
}

// appendLeft adds what err says is left, at path unless it says where.
func appendLeft(left []*LeftOver, path string, err error) []*LeftOver {
	var here *LeftOver
	switch {
	case err == nil:
		return left
	case errors.As(err, &here):
		return append(left, here)
	default:
		return append(left, &LeftOver{Path: path, Err: err})
	}
}

// parsePartName answers what part has the name, or nil.
func parsePartName(name string) *pb.PartId {
	match := partName.FindStringSubmatch(name)
	if match == nil {
		return nil
	}
	job, err := strconv.ParseUint(match[1], 10, 32)
	epoch, err2 := strconv.ParseUint(match[2], 10, 32)
	id := &pb.PartId{Job: uint32(job), Epoch: uint32(epoch)}
	if err != nil || err2 != nil || partID(id) != name {
		return nil // too large, or with zeros in front
	}
	return id
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
