// Package cdi says what a root that lacks the node's NVIDIA driver needs of it: the
// libraries and tools, under which paths, and what leads programs there. That is what the
// node's CDI specifications say (Container Device Interface, as NVIDIA's toolkit writes
// them), or, on a node without any, what lies beside the driver's own library.
//
// What it promises: it answers files, links and directories, and never a device. Which
// devices a job has is decided elsewhere. Specifications count only where root alone can
// write them. Their hooks, which are programs that would run as root, are read and not
// run: what NVIDIA's make is made here, and the others are left out.
//
// The linker cache of a root is left as it is. To renew it, a program would have to work
// as root in a root that a user brings. So programs are led to the libraries by
// LD_LIBRARY_PATH, and each library has a link of the name by which it is asked for.
package cdi

import (
	"cmp"
	"debug/elf"
	"path/filepath"
	"slices"
	"strings"
)

// Driver is what is needed of the node's driver. It can be kept as JSON.
type Driver struct {
	Files       []File   `json:"files,omitempty"`       // ascending by Inside
	Links       []Link   `json:"links,omitempty"`       // ascending by Path
	Libraries   []string `json:"libraries,omitempty"`   // directories inside, for LD_LIBRARY_PATH
	Programs    []string `json:"programs,omitempty"`    // likewise, for PATH
	Environment []string `json:"environment,omitempty"` // NAME=VALUE
}

// File is a file or directory of the node, to be shown read-only at a path inside.
type File struct {
	Outside string `json:"outside"`
	Inside  string `json:"inside"`
}

// Link is a symbolic link inside.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// add adds a file, once for each path inside.
func (d *Driver) add(outside, inside string) {
	if !slices.ContainsFunc(d.Files, func(f File) bool { return f.Inside == inside }) {
		d.Files = append(d.Files, File{Outside: outside, Inside: inside})
	}
}

func (d *Driver) link(path, target string) {
	if !slices.ContainsFunc(d.Links, func(l Link) bool { return l.Path == path }) {
		d.Links = append(d.Links, Link{Path: path, Target: target})
	}
}

// linkLibraries links the names by which programs ask for libraries to those that lie in
// the directories for libraries, as ldconfig would.
func (d *Driver) linkLibraries() {
	for _, f := range d.Files {
		dir, base := filepath.Split(f.Inside)
		if !slices.Contains(d.Libraries, filepath.Clean(dir)) || !strings.Contains(base, ".so") {
			continue
		}
		if name := libraryName(f.Outside); name != "" && name != base {
			d.link(filepath.Join(dir, name), base)
		}
	}
}

// libraryName is what a library calls itself; "" = it is none.
func libraryName(path string) string {
	file, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	names, err := file.DynString(elf.DT_SONAME)
	if err != nil || len(names) != 1 || filepath.Base(names[0]) != names[0] {
		return ""
	}
	return names[0]
}

// sort puts everything in its order, so that the same node answers the same each time.
func (d *Driver) sort() {
	slices.SortFunc(d.Files, func(a, b File) int { return cmp.Compare(a.Inside, b.Inside) })
	slices.SortFunc(d.Links, func(a, b Link) int { return cmp.Compare(a.Path, b.Path) })
}
