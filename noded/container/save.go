package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// SaveOptions say where a container is saved.
type SaveOptions struct {
	// Dir is the image's directory, which is made, or is empty. It is root's
	// alone, and on a disk with room for the job's memory.
	Dir string
	// Log is a directory outside the image, for CRIU's log. The log stays there
	// and says why a save failed.
	Log string
	// Pages, if it is not nil, gets the parts with what the processes have in memory
	// while they are dumped: see checkpoint.DumpOptions. They are not in Dir, and not
	// in the manifest.
	Pages func(part string, pipe *os.File) error
	// Timeout bounds how long CRIU tries to get hold of the processes, 0 = a
	// minute; the context bounds all.
	Timeout time.Duration
}

// The parts of an image, as files in its directory.
const (
	imageDir   = "criu" // CRIU's own files, below it
	upperPart  = "upper.tar"
	tmpPart    = "tmp.tar"
	varTmpPart = "var-tmp.tar"
	runPart    = "run.tar"
	carriedDir = "carried" // files of the root that travel with it
	// carriedInit is process 1's program.
	carriedInit = carriedDir + "/ginit"
)

// Save writes an image of the container, which the caller has frozen by its
// control group. A link of its network with the node is cut: CRIU cannot save one. It refuses what NotSavable finds with checkpoint.ErrObstacles, even
// if CRIU would save it, for example a connection without its other end. The container
// stays frozen, also after a failure, unless the error wraps checkpoint.ErrRuns. The
// manifest lacks job, epoch, number, node and GPUs: the caller fills them in.
//
// It costs two copies of what the job wrote into its root and /tmp and one of
// its memory, at the speed of the disk. Files that the job has mapped are read once
// for each time that they change: before the freeze if Prepare was called.
func (c *Container) Save(ctx context.Context, engine *checkpoint.Engine, o SaveOptions) (*checkpoint.Manifest, error) {
	group, err := cgroup.Open(c.spec.Cgroup.Path)
	if err != nil {
		return nil, err
	}
	found, err := c.NotSavable()
	if err = errors.Join(err, checkpoint.Refuse(found)); err != nil {
		return nil, err
	}
	images := filepath.Join(o.Dir, imageDir)
	for _, dir := range []string{images, filepath.Join(o.Dir, carriedDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the image's directory: %w", err)
		}
	}
	manifest := &checkpoint.Manifest{
		Version: checkpoint.ManifestVersion, SavedMS: time.Now().UnixMilli(), UID: c.spec.User.UID, Root: c.spec.rootName(),
	}
	if manifest.Machine, err = checkpoint.ThisMachine(ctx, engine); err != nil {
		return nil, err
	}
	mounts, err := c.notSaved()
	if err != nil {
		return nil, err
	}
	manifest.Mounts = mounts
	usage, err := group.Usage()
	if err != nil {
		return nil, err
	}
	manifest.Memory = int64(usage.CurrentMemoryBytes - min(usage.FileBytes, usage.CurrentMemoryBytes))
	manifest.Devices = ImageDevices(c.spec.Devices)
	copied := make(chan error, 1)
	go func() { copied <- c.pack(ctx, o.Dir) }()
	dump := checkpoint.DumpOptions{Images: images, Log: o.Log, Pid: c.Pid(), Tree: group, External: mounts, Timeout: o.Timeout}
	dump.Linked = func() error { // the copy that is being made may lack the links
		err := <-copied
		if err == nil {
			err = c.pack(ctx, o.Dir)
		}
		copied <- err
		return err
	}
	if o.Pages != nil {
		dump.Pages = func(name string, pipe *os.File) error { return o.Pages(path.Join(imageDir, name), pipe) }
	}
	_, err = engine.Dump(ctx, dump)
	if err = errors.Join(err, <-copied); err != nil {
		return nil, err
	}
	if err := c.refuseNamed(images); err != nil {
		return nil, err
	}
	if manifest.Locks, err = checkpoint.HoldsLocks(images); err != nil {
		return nil, err
	}
	if err := c.listFiles(ctx, group, manifest, o.Dir); err != nil {
		return nil, err
	}
	if err := c.listNeeds(group, manifest); err != nil {
		return nil, err
	}
	if err := checkpoint.ForgetMeasures(images, manifest.Held, mounts); err != nil {
		return nil, err
	}
	if manifest.Parts, err = checkpoint.ListParts(o.Dir); err != nil {
		return nil, err
	}
	return manifest, nil
}

// listNeeds tells what another node must have besides the files of the root.
func (c *Container) listNeeds(group *cgroup.Group, manifest *checkpoint.Manifest) error {
	pids, err := group.Procs()
	if err != nil {
		return err
	}
	if manifest.Needs, err = checkpoint.NeedsOf(pids); err != nil {
		return err
	}
	manifest.IDs = checkpoint.IDs{Users: oneSpaced(mapText(c.stage.uids)), Groups: oneSpaced(mapText(c.stage.gids))}
	manifest.Held, err = c.listHeld(pids)
	return err
}

// hostRoot is Manifest.Root of a container whose root is the host's.
const hostRoot = "host"
