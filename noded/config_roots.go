package noded

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/cdi"
)

// RootsConfig says where container images are kept that jobs have as their roots.
type RootsConfig struct {
	Dir        string   // in StateDir
	Program    string   // goci
	LimitBytes uint64   // 0 = a part of the disk
	SpecDirs   []string // where CDI specifications lie, the most important last
}

const (
	rootsDir = "roots" // in state_dir
	// rootsPart of the disk of the state directory is what images may take if nobody says.
	rootsPart = 8
)

func (f *configFile) checkRoots(c *Config) error {
	c.Roots = RootsConfig{Dir: filepath.Join(c.StateDir, rootsDir), Program: f.Container.Goci, SpecDirs: f.Container.CDISpecDirs}
	if c.Roots.SpecDirs == nil {
		c.Roots.SpecDirs = cdi.Directories
	}
	for _, dir := range c.Roots.SpecDirs {
		if err := checkAbsolute("container.cdi_spec_dirs", dir); err != nil {
			return err
		}
	}
	if f.Container.Goci == "" {
		c.Roots.Program = findGoci()
	} else if err := checkAbsolute("container.goci", f.Container.Goci); err != nil {
		return err
	}
	if f.Container.ImageCache == "" {
		return nil
	}
	var err error
	if c.Roots.LimitBytes, err = parseMemory("container.image_cache", f.Container.ImageCache); err == nil && c.Roots.LimitBytes > math.MaxInt64 {
		err = fmt.Errorf("container.image_cache %q is more than any disk has", shorten(f.Container.ImageCache))
	}
	return err
}

// limit is what container images may take.
func (r *RootsConfig) limit() uint64 {
	var fs unix.Statfs_t
	if r.LimitBytes == 0 && unix.Statfs(existingParent(r.Dir), &fs) == nil {
		return fs.Blocks * uint64(fs.Bsize) / rootsPart
	}
	return r.LimitBytes
}

// findGoci answers where goci is installed: beside this program, or with the commands.
func findGoci() string {
	beside := "/usr/bin/goci"
	if own, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(own), "goci")
	}
	for _, path := range []string{beside, "/usr/local/bin/goci", "/usr/bin/goci"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return beside
}
