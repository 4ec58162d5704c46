package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/opencontainers/cgroups/manager"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// ErrMisfit is returned, wrapped, by Restore when this node, or this
// container, is not what the image needs. Nothing has run.
var ErrMisfit = errors.New("this image cannot be restored here")

// Image is a saved container, as files: what Save wrote, or the same bytes.
type Image struct {
	Dir      string // its files; root's alone
	Manifest *checkpoint.Manifest
	// Spare are parts that are not in Dir, because nobody needs them: see Spare.
	Spare map[string]bool
	// AsSaved: nothing of the job has run since. Then the files of shared file systems
	// that it had open may have any size: others have changed them.
	AsSaved bool
	// Log is a directory for CRIU's log.
	Log string
	// MayRun is asked last, when every check has passed and nothing
	// has run. Its error ends the restore. May be nil.
	MayRun func() error
	// Stopped leaves every process stopped by SIGSTOP when Restore returns.
	Stopped bool
}

// Restore makes the container of an image again, on this node, as spec says,
// and lets it run, unless it must stay stopped. In spec, User must be the same, Devices
// as many as before, and WorkDir and Files must have the same paths inside;
// Filter, Orders, InitPath's bytes and the paths of devices come from the image. Dir
// has no layers yet; RunDir exists, and what was in it is written there.
//
// The caller has compared its bytes with the manifest: see checkpoint/store.
// Nothing runs before all this is true: the machine fits; every process is in
// spec's control group, has the system-call filter, no capability, and the
// user namespace that Start would make; each device of spec is where the image
// has it; and a process in that group cannot open a device that spec does not
// give it.
//
// Like Start it is called from the main goroutine, in a mount namespace of the
// caller's own. After an error nothing is left but what Dir holds, and what
// may be left in the control group if the error wraps checkpoint.ErrHalf.
func Restore(ctx context.Context, spec *Spec, engine *checkpoint.Engine, image Image) (_ *Container, err error) {
	stage, r, err := approach(ctx, spec, engine, &image)
	defer func() {
		if err != nil && stage != nil {
			err = errors.Join(err, stage.close())
		}
	}()
	if err != nil {
		return nil, err
	}
	c := &Container{stage: stage, spec: r.spec.kept(), sources: r.sources}
	if err := c.restore(ctx, engine, r.assembled, &image); err != nil {
		return nil, errors.Join(err, c.removeGroups())
	}
	return c, nil
}

// unpack writes what the job had written, before anything is mounted there.
func (i *Image) unpack(ctx context.Context, spec *Spec, l layers) error {
	group, ctx := errgroup.WithContext(ctx)
	for part, to := range map[string]string{upperPart: l.upper, tmpPart: l.tmp, varTmpPart: l.varTmp, runPart: spec.RunDir} {
		group.Go(func() error {
			if err := unarchive(ctx, filepath.Join(i.Dir, part), to); err != nil {
				return fmt.Errorf("unpack the image's %s: %w", part, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// restore makes the processes with CRIU.
func (c *Container) restore(ctx context.Context, engine *checkpoint.Engine, a *assembled, image *Image) error {
	if err := image.setMountFlags(c.sources); err != nil {
		return err
	}
	if err := image.checkNamed(); err != nil {
		return err
	}
	watched, err := checkpoint.WatchedIn(filepath.Join(image.Dir, imageDir))
	if err != nil {
		return err
	}
	if err := image.open(); err != nil {
		return err
	}
	// With what is mounted on its files: see Streams.
	images, err := c.stage.clone(filepath.Join(image.Dir, imageDir), nil, cloneOptions{recursive: true})
	if err != nil {
		return err
	}
	imagesPath, err := c.stage.attach(images)
	if err != nil {
		return err
	}
	defer func() {
		images.Close()
		if err := unix.Unmount(imagesPath, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			c.spec.log().Warn("the files of an image stay mounted until the job ends: nothing to do unless that repeats; then see the error", "error", err)
		}
	}()
	root, err := c.stage.bareRoot(a.root)
	if err != nil {
		return err
	}
	probe, err := startProbe(ctx, &c.spec)
	if err != nil {
		return err
	}
	defer probe.end()
	restored, err := engine.Restore(ctx, checkpoint.RestoreOptions{
		Owner: namespaceOwner(c.spec.ID), Started: func(pid int) error {
			if err := c.joinGroups(pid); err != nil {
				return err
			}
			return c.tryDevices(probe) // while CRIU itself is started
		},
		Images: imagesPath, Log: image.Log, Root: root, External: paths(c.sources), Stopped: image.Stopped,
		Check: func(pid int) error {
			err := errors.Join(leavePlain(c.sources), c.checkRestored(pid, watched, filepath.Join(image.Dir, imageDir)), boundRestored(pid, c.spec.Nests()))
			if err == nil && c.spec.Network != nil {
				err = c.spec.Network.Join(pid, true)
			}
			if err != nil || image.MayRun == nil {
				return err
			}
			return image.MayRun()
		},
	})
	if err != nil {
		return err
	}
	process, err := os.FindProcess(restored.Pid)
	if err != nil {
		return fmt.Errorf("find the restored process 1: %w", err)
	}
	c.process = restoredProcess{process}
	return nil
}

func paths(sources map[string]source) map[string]string {
	result := make(map[string]string, len(sources))
	for inside, from := range sources {
		result[inside] = from.path
	}
	return result
}

// bareRoot answers another mount of the root, without the shares in it: CRIU
// binds it in the new namespace, where a mount with others below it cannot be
// bound alone.
func (s *stage) bareRoot(root string) (string, error) {
	tree, err := s.clone(root, nil, cloneOptions{})
	if err != nil {
		return "", err
	}
	return s.attach(tree)
}

// Streams says whether a part is one that CRIU reads from its begin to its end and
// that may be large: what processes had in memory. A file system may be mounted on
// its file in the image's directory, which makes the bytes as they are read; it must
// answer for each that it is as it was saved.
func Streams(part *checkpoint.Part) bool {
	const least = 1 << 20 // what is smaller is not worth a mount
	matches, _ := path.Match(imageDir+"/pages-*.img", part.Name)
	return matches && part.Size >= least
}

// open lets everybody read CRIU's files: CRIU runs as nobody at first, later as root
// of the new user namespace. Above them are the image's directory, which is
// closed, and the stage, which nobody else sees.
func (i *Image) open() error {
	images := filepath.Join(i.Dir, imageDir)
	if err := os.Chmod(i.Dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(images)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().Perm()&0o444 == 0o444 {
			continue // also what is mounted there, and cannot be changed
		}
		if err := os.Chmod(filepath.Join(images, entry.Name()), 0o644); err != nil {
			return err
		}
	}
	return os.Chmod(images, 0o755)
}

// makeMountPoints makes the mount points that the root lacks: a directory of the node
// that made the image need not exist here. Mount points in the
// container's own file systems come with those.
func (s *stage) makeMountPoints(a *assembled, sources map[string]source) error {
	points, err := s.newPoints(a)
	if err != nil {
		return err
	}
	defer points.close()
	for at, from := range sources {
		if slices.Contains(plainDirs, at) {
			if err := points.addPlain(at, from.plain); err != nil {
				return fmt.Errorf("make %s: %w", at, err)
			}
		}
	}
	for inside, from := range sources {
		if !points.mayLack(inside, sources) {
			continue
		}
		point, err := points.open(inside, from.isDir, unix.RESOLVE_NO_SYMLINKS)
		if err != nil {
			return misfit("mount "+inside, "its mount point cannot be made: "+err.Error(), "make that directory on the node, or choose another one")
		}
		unix.Close(point)
	}
	return nil
}

// mayLack says whether a mount point at a path may have to be made here. All others are
// in a file system that CRIU fills, that the kernel fills, or that comes with its mount
// points.
func (p *mountPoints) mayLack(inside string, sources map[string]source) bool {
	if slices.Contains(maskedPaths, inside) || within(inside, "/proc") {
		return false
	}
	for _, dir := range plainDirs {
		if !within(inside, dir) {
			continue
		}
		if inside == dir {
			return true
		}
		_, isPlain := sources[dir]
		return isPlain && !isBelowAnother(inside, dir, sources)
	}
	return true
}

// isBelowAnother says whether a path in dir lies in something else that is mounted there.
func isBelowAnother(inside, dir string, sources map[string]source) bool {
	for above := path.Dir(inside); above != dir; above = path.Dir(above) {
		if _, found := sources[above]; found || slices.Contains(memoryDirs, above) {
			return true
		}
	}
	return false
}

// joinGroups makes the container's control group, with its limits and its
// device rules, and puts a process in.
func (c *Container) joinGroups(pid int) error {
	groups, err := manager.New(c.spec.Cgroup)
	if err != nil {
		return fmt.Errorf("make the control group: %w", err)
	}
	if err := groups.Apply(pid); err != nil {
		return fmt.Errorf("make the control group: %w", err)
	}
	if err := groups.Set(c.spec.Cgroup.Resources); err != nil {
		return fmt.Errorf("limit the control group: %w", err)
	}
	return nil
}

func (c *Container) removeGroups() error {
	groups, err := manager.New(c.spec.Cgroup)
	if err != nil {
		return fmt.Errorf("remove the control group: %w", err)
	}
	return groups.Destroy()
}

// signalRestored also thaws a frozen tree, so that it can die.
func (c *Container) signalRestored(signal unix.Signal) error {
	if err := c.process.Signal(signal); err != nil || signal != unix.SIGKILL {
		return err
	}
	group, err := cgroup.Open(c.spec.Cgroup.Path)
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return group.Thaw(context.Background())
}

// restoredProcess is process 1 after a restore, a child of this process.
type restoredProcess struct{ process *os.Process }

func (p restoredProcess) Pid() (int, error) { return p.process.Pid, nil }

func (p restoredProcess) Signal(signal os.Signal) error { return p.process.Signal(signal) }

func (p restoredProcess) Wait() (*os.ProcessState, error) { return p.process.Wait() }
