package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

const (
	// secondLook is when what looked dead is looked at again: a daemon that
	// runs buries it meanwhile.
	secondLook = 2 * time.Second
	// oldTrial is the age from which a directory of an examination has nobody.
	oldTrial = 10 * time.Minute
)

// checkLeftOvers looks for what jobs left that nobody looks after.
func (d *doctor) checkLeftOvers(ctx context.Context) []finding.Finding {
	const name = "left over"
	if !d.root {
		return needsRoot(name)
	}
	left, err := d.leftOvers()
	if err == nil && len(left) > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(secondLook):
		}
		var still []string
		still, err = d.leftOvers()
		left = slices.DeleteFunc(left, func(what string) bool { return !slices.Contains(still, what) })
	}
	switch {
	case err != nil:
		return []finding.Finding{finding.Unseen(name, err.Error())}
	case len(left) > 0:
		return []finding.Finding{finding.Doubtful(name, few(left), "disk, memory or GPUs stay in use",
			"systemctl start gnoded cleans up after dead jobs and says in its log what it cannot remove; to end all jobs instead: systemctl stop gnoded && gnoded stop-jobs\numount what is mounted; directories of examinations: rm -r --one-file-system")}
	}
	return []finding.Finding{finding.Good(name, "nothing of dead jobs")}
}

// allocName is the name of an allocation's group: JOB.EPOCH.
var allocName = regexp.MustCompile(`^[0-9]{1,10}\.[0-9]{1,10}$`)

func (d *doctor) leftOvers() (left []string, err error) {
	handles, damaged, err := client.List(d.config.StateDir, d.config.CgroupParent)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, h := range handles {
		known[filepath.Base(h.Dir())] = true
		alive := h.Alive() // asked first: it may write its result, and go, at this moment
		if _, err := h.Result(); errors.Is(err, bundle.ErrNoResult) && !alive {
			left = append(left, h.Dir()+" is of a job whose supervisor is dead")
		}
	}
	for _, bad := range damaged {
		known[fmt.Sprintf("%d.%d", bad.Order().Alloc.Job, bad.Order().Alloc.Epoch)] = true
		left = append(left, bad.Error())
	}
	groups, err := cgroup.List(d.config.CgroupParent)
	for _, group := range groups {
		full := path.Join(d.config.CgroupParent, group)
		pid, examination := strings.CutPrefix(group, "doctor-")
		switch {
		case allocName.MatchString(group) && !known[group]:
			left = append(left, "control group "+full+" is of no job on disk")
		case examination && !processExists(pid):
			left = append(left, "control group "+full+" is of an examination that was killed")
		}
	}
	return append(append(left, d.oldTrials()...), d.mountsBelow()...), err
}

func processExists(pid string) bool {
	_, err := strconv.Atoi(pid)
	_, statErr := os.Stat("/proc/" + pid)
	return err == nil && statErr == nil
}

// oldTrials are directories that a killed examination left.
func (d *doctor) oldTrials() (left []string) {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(d.scratch), scratchPrefix+"*"))
	for _, dir := range found {
		if info, err := os.Lstat(dir); err == nil && dir != d.scratch && time.Since(info.ModTime()) > oldTrial {
			left = append(left, dir+" is of an examination that was killed")
		}
	}
	return left
}

// mountsBelow are mounts among the allocations' directories, which prevent their
// deletion.
func (d *doctor) mountsBelow() (left []string) {
	jobs := filepath.Join(d.config.StateDir, "jobs")
	if resolved, err := filepath.EvalSymlinks(jobs); err == nil {
		jobs = resolved
	}
	mounts, _ := mountinfo.GetMounts(mountinfo.PrefixFilter(jobs))
	for _, m := range mounts {
		left = append(left, m.Mountpoint+" is mounted where only the files of jobs belong")
	}
	return left
}
