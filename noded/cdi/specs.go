package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// Directories are where specifications lie, the most important last.
var Directories = []string{"/etc/cdi", "/var/run/cdi"}

// kind is that of NVIDIA's GPUs.
const kind = "nvidia.com/gpu"

// ErrNoSpec is returned, wrapped, where no specification tells of NVIDIA's GPUs.
var ErrNoSpec = errors.New("no CDI specification of " + kind)

// mostSpecBytes bounds a specification: some hundred lines for each GPU, with room.
const mostSpecBytes = 4 << 20

// FromSpecs answers what the specifications in directories say of those GPUs whose device
// files, as /dev/nvidia0, are in devices.
func FromSpecs(directories, devices []string) (*Driver, error) {
	var spec *cdi.Spec
	for _, directory := range slices.Backward(directories) {
		found, err := specIn(directory)
		if err != nil {
			return nil, err
		}
		if spec = found; spec != nil {
			break
		}
	}
	if spec == nil {
		return nil, fmt.Errorf("%w in %s", ErrNoSpec, strings.Join(directories, ", "))
	}
	d := new(Driver)
	d.apply(&spec.ContainerEdits)
	for i := range spec.Devices {
		if edits := &spec.Devices[i].ContainerEdits; isOf(edits, devices) {
			d.apply(edits)
		}
	}
	d.linkLibraries()
	d.sort()
	return d, nil
}

// specIn is the specification of NVIDIA's GPUs in a directory; nil = there is none.
func specIn(directory string) (*cdi.Spec, error) {
	entries, err := os.ReadDir(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for CDI specifications: %w", err)
	}
	if err := rootsAlone(directory); err != nil {
		return nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(directory, entry.Name())
		if ext := filepath.Ext(path); ext != ".json" && ext != ".yaml" {
			continue
		}
		if err := rootsAlone(path); err != nil {
			return nil, err
		}
		spec, err := cdi.ReadSpec(path, 0)
		if err != nil {
			return nil, fmt.Errorf("%w: nvidia-ctk cdi generate makes one", err)
		}
		if spec.Kind == kind {
			return spec, nil
		}
	}
	return nil, nil
}

// rootsAlone refuses what somebody else than root can write.
func rootsAlone(path string) error {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return &os.PathError{Op: "look at", Path: path, Err: err}
	}
	if stat.Uid != 0 || stat.Mode&0o022 != 0 {
		return fmt.Errorf("CDI: others than root can write %s, which says what root mounts: chown root:root %[1]s && chmod go-w %[1]s", path)
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Size > mostSpecBytes {
		return fmt.Errorf("CDI: %s has %d bytes, and a specification at most %d", path, stat.Size, mostSpecBytes)
	}
	return nil
}

// gpuFile is the name of a GPU's device file.
var gpuFile = regexp.MustCompile(`^/dev/nvidia[0-9]+$`)

// isOf says whether a device of a specification is about some of these GPUs and no other.
func isOf(edits *specs.ContainerEdits, devices []string) bool {
	of := false
	for _, node := range edits.DeviceNodes {
		path := node.Path
		if node.HostPath != "" {
			path = node.HostPath
		}
		if !gpuFile.MatchString(path) {
			continue
		}
		if !slices.Contains(devices, path) {
			return false
		}
		of = true
	}
	return of
}

// notShown are places of a container's own, in which nothing of a driver is shown: a job
// reaches no service of the node, and its devices come from elsewhere.
var notShown = []string{"/proc", "/sys", "/dev", "/run", "/var/run", "/tmp", "/var/tmp"}

func isShown(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) != "/" && !slices.ContainsFunc(notShown, func(dir string) bool {
		return strings.HasPrefix(filepath.Clean(path)+"/", dir+"/")
	})
}

// apply adds what edits say, except devices.
func (d *Driver) apply(edits *specs.ContainerEdits) {
	for _, mount := range edits.Mounts {
		if _, err := os.Stat(mount.HostPath); err == nil && isShown(mount.ContainerPath) {
			d.add(mount.HostPath, filepath.Clean(mount.ContainerPath))
		}
	}
	for _, entry := range edits.Env {
		// It would tell NVIDIA's own runtime about devices, and there is none.
		if !strings.HasPrefix(entry, "NVIDIA_VISIBLE_DEVICES=") && !slices.Contains(d.Environment, entry) {
			d.Environment = append(d.Environment, entry)
		}
	}
	for _, hook := range edits.Hooks {
		d.applyHook(hook)
	}
}

// applyHook adds what a hook of NVIDIA's would do: "nvidia-ctk hook create-symlinks" or
// "nvidia-cdi-hook create-symlinks", and likewise update-ldcache.
func (d *Driver) applyHook(hook *specs.Hook) {
	for i, argument := range hook.Args {
		var value string
		name, joined, is := strings.Cut(argument, "=")
		switch {
		case is:
			value = joined
		case i+1 < len(hook.Args):
			value = hook.Args[i+1]
		}
		switch {
		case name == "--link" && slices.Contains(hook.Args, "create-symlinks"):
			if target, path, is := strings.Cut(value, "::"); is && isShown(path) {
				d.link(filepath.Clean(path), target)
			}
		case name == "--folder" && slices.Contains(hook.Args, "update-ldcache"):
			if dir := filepath.Clean(value); isShown(dir) && !slices.Contains(d.Libraries, dir) {
				d.Libraries = append(d.Libraries, dir)
			}
		}
	}
}
