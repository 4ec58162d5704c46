package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// checkImage compares an image with its manifest, this machine and the
// container that is asked for, before anything is made of it.
func checkImage(ctx context.Context, spec *Spec, engine *checkpoint.Engine, image *Image) error {
	m := image.Manifest
	if err := m.Check(); err != nil {
		return err
	}
	here, err := thisNode(ctx, spec, engine)
	if err != nil {
		return err
	}
	if found := m.Fits(here); len(found) > 0 {
		return &MisfitError{found}
	}
	if image.Dir == "" {
		return image.checkShared(spec)
	}
	if err := m.Verify(image.Dir, image.Spare); err != nil {
		return err
	}
	if err := image.checkShared(spec); err != nil {
		return err
	}
	for i := range m.Files {
		f := &m.Files[i]
		if f.Path != initPath {
			continue
		}
		if !image.Spare[f.Carried] {
			return os.Chmod(filepath.Join(image.Dir, f.Carried), os.FileMode(f.Mode)&os.ModePerm)
		}
		if !isThere(f, spec.InitPath) {
			return misfit("file "+spec.InitPath, "it was replaced a moment ago", "try again")
		}
		return nil
	}
	return fmt.Errorf("%w: it lacks process 1's program", checkpoint.ErrManifest)
}

// checkShared compares the files of shared file systems to which the job was writing, if
// the job continued after it was saved. One may have grown since. checkShared truncates it
// to where the job is now, which will write the rest again, unless only the facts of the
// image are known. It uses the user's own rights.
//
// A job that did not continue has written nothing since. What such a file has now is what
// others wrote, and stays.
func (i *Image) checkShared(spec *Spec) error {
	if i.AsSaved {
		return nil
	}
	for _, f := range i.Manifest.Shared {
		if !f.Exact || !f.Written {
			continue
		}
		path := spec.outside(f.Path)
		err := userpath.As(spec.User.Identity(), 0, func() error {
			info, err := os.Stat(path)
			switch {
			case err != nil:
				return misfit("file "+f.Path, "it was open: "+err.Error(), "choose a node that has it, or put it back")
			case info.Size() == f.Size:
				return nil
			case info.Size() > f.Size && info.Mode().IsRegular():
				if i.Dir != "" {
					return os.Truncate(path, f.Size)
				}
				return nil
			}
			return misfit("file "+f.Path, fmt.Sprintf("it was open with %d bytes, and now has %d", f.Size, info.Size()), "put back what it was")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRestored asks the kernel about each process of a restored tree, none of
// which has run: nothing that an image says of itself is taken on trust. It gives them what
// CRIU has not given them.
func (c *Container) checkRestored(pid int, watched []string, images string) error {
	group, err := cgroup.Open(c.spec.Cgroup.Path)
	if err != nil {
		return err
	}
	pids, err := group.Procs()
	if err != nil {
		return err
	}
	if !slices.Contains(pids, pid) {
		return fmt.Errorf("the restored process 1 is not in control group %s", group.Path())
	}
	if err := c.checkNamespaces(pid); err != nil {
		return err
	}
	var inside []int
	for _, p := range pids {
		same, err := sameNamespace(p, pid, "pid")
		if errors.Is(err, os.ErrNotExist) {
			continue // it was killed
		}
		if err != nil {
			return err
		}
		if !same {
			continue // CRIU itself
		}
		inside = append(inside, p)
		if err := checkThreads(p, pid); err != nil {
			return err
		}
	}
	if len(inside) == 0 {
		return errors.New("no process was restored")
	}
	if err := errors.Join(c.givePipes(inside), checkpoint.Replace(images, inside, pid)); err != nil {
		return err
	}
	if err := errors.Join(checkMounted(pid, c.sources), c.checkReach(pid, inside, watched)); err != nil {
		return err
	}
	return c.checkShown(pid)
}

// checkNamespaces: the ids of the processes are those that Start would give,
// and their mounts are their own.
func (c *Container) checkNamespaces(pid int) error {
	for name, want := range map[string]string{"uid_map": mapText(c.stage.uids), "gid_map": mapText(c.stage.gids)} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			return fmt.Errorf("look at the restored process 1: %w", err)
		}
		if strings.Join(strings.Fields(string(text)), " ") != strings.Join(strings.Fields(want), " ") {
			return fmt.Errorf("%w: its %s is not that of its user: have the user's groups changed?", ErrMisfit, name)
		}
	}
	own := []string{"user", "mnt", "pid", "ipc", "uts"}
	if c.spec.PrivateNetwork {
		own = append(own, "net")
	}
	for _, kind := range own {
		same, err := sameNamespace(pid, os.Getpid(), kind)
		if err != nil {
			return err
		}
		if same {
			return fmt.Errorf("%w: it has no %s namespace of its own", ErrMisfit, kind)
		}
	}
	same, err := sameNamespace(pid, os.Getpid(), "net")
	if err == nil && !same && !c.spec.PrivateNetwork {
		err = fmt.Errorf("%w: it has a network of its own, and the job shall have the host's", ErrMisfit)
	}
	return err
}

func sameNamespace(a, b int, kind string) (bool, error) {
	first, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", a, kind))
	if err != nil {
		return false, err
	}
	second, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", b, kind))
	return first == second, err
}

// checkThreads: every thread has the filter, and no right.
func checkThreads(pid, first int) error {
	for _, kind := range []string{"user", "mnt", "net", "ipc", "uts"} {
		if same, err := sameNamespace(pid, first, kind); err != nil || !same {
			return errors.Join(fmt.Errorf("%w: process %d has another %s namespace than process 1", ErrMisfit, pid, kind), err)
		}
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return err
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "\nState:\tZ") {
			continue
		}
		for _, want := range []string{
			"\nSeccomp:\t2\n", "\nNoNewPrivs:\t1\n", "\nCapInh:\t0000000000000000\n", "\nCapPrm:\t0000000000000000\n",
			"\nCapEff:\t0000000000000000\n", "\nCapBnd:\t0000000000000000\n", "\nCapAmb:\t0000000000000000\n",
		} {
			if !strings.Contains(string(text), want) {
				return fmt.Errorf("%w: a process of it does not have %s", ErrNoFilter, strings.TrimSpace(want))
			}
		}
	}
	return nil
}
