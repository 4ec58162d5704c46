package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
)

// Configured is a GPU that the node's configuration names.
type Configured struct {
	ID            string
	Model         string
	Path          string // of its device file
	ContainerPath string // below /dev; "" = InContainer(Path)
	MemoryBytes   uint64
	Links         []string
}

// InContainer is where a job sees the device file path unless it is told
// otherwise: at the same place, or, since containers have devices below /dev
// only, there under its last name.
func InContainer(path string) string {
	if strings.HasPrefix(path, "/dev/") {
		return path
	}
	return "/dev/" + filepath.Base(path)
}

// nvidiaFile is the name of a real GPU's device file.
var nvidiaFile = regexp.MustCompile(`^/dev/nvidia[0-9]+$`)

type configured struct {
	list []Configured
}

// FromConfiguration answers the source of the GPUs that list names. Their
// health is whether their device files are there, looked up at each call.
func FromConfiguration(list []Configured) Source {
	return &configured{list: list}
}

func (c *configured) Devices() ([]Device, error) {
	devices := make([]Device, 0, len(c.list))
	for i, g := range c.list {
		d := Device{
			ID: g.ID, Index: i, Model: g.Model, Product: g.Model + " (named in the node's configuration)",
			MemoryBytes: g.MemoryBytes, Links: g.Links,
		}
		var err error
		d.File, err = statFile(g.Path)
		d.File.ContainerPath = cmp.Or(g.ContainerPath, InContainer(g.Path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			d.fail(Failed, fmt.Sprintf("its device file %s does not exist", g.Path))
		case err != nil:
			d.fail(Failed, err.Error())
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// Companions answers what CUDA needs when a real GPU was named, otherwise nothing.
func (c *configured) Companions() (files []File, missing []string) {
	for _, g := range c.list {
		if nvidiaFile.MatchString(filepath.Clean(g.Path)) {
			return findCompanions("/dev")
		}
	}
	return nil, nil
}

func (c *configured) Close() error { return nil }
