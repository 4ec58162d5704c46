package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// This file bounds what the processes of a group read from disks and write to them. v2
// counts all of it. v1 counts reads that the page cache does not answer, and writes that
// pass the page cache by: what it writes back later belongs to nobody there.

// The files that take the bounds.
const (
	ioController    = "io"    // of v2
	blkioController = "blkio" // of v1
	ioMax           = "io.max"
	throttleRead    = "blkio.throttle.read_bps_device"
	throttleWrite   = "blkio.throttle.write_bps_device"
)

// Disk is a whole disk, by its numbers, as in "259:0".
type Disk string

// noDisks are the beginnings of the names of what has no disk of its own behind it: loop
// devices read and write others, on account of the same group.
var noDisks = []string{"loop", "ram", "zram", "sr", "fd"}

// Disks are the machine's disks that have a size, ascending by name.
func Disks() ([]Disk, error) { return disksIn("/sys/block") }

func disksIn(directory string) ([]Disk, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("list the machine's disks: %w", err)
	}
	var disks []Disk
	for _, entry := range entries {
		if slices.ContainsFunc(noDisks, func(prefix string) bool { return strings.HasPrefix(entry.Name(), prefix) }) {
			continue
		}
		size, err := os.ReadFile(filepath.Join(directory, entry.Name(), "size"))
		if err != nil || strings.TrimSpace(string(size)) == "0" {
			continue // it is being taken away, or there is nothing in it
		}
		if numbers, err := os.ReadFile(filepath.Join(directory, entry.Name(), "dev")); err == nil {
			disks = append(disks, Disk(strings.TrimSpace(string(numbers))))
		}
	}
	return disks, nil
}

// CheckIO fails with ErrUnsupported where what groups below this one read and write cannot
// be bounded. The group must exist.
func (g *Group) CheckIO() error {
	directories, err := g.present()
	if err != nil {
		return err
	}
	if isV2() {
		controllers, err := os.ReadFile(filepath.Join(directories[""], "cgroup.subtree_control"))
		if err == nil && !slices.Contains(strings.Fields(string(controllers)), ioController) {
			err = fmt.Errorf("%w: groups below %s do not have the controller %s", ErrUnsupported, g.path, ioController)
		}
		return err
	}
	directory, mounted := directories[blkioController]
	if !mounted {
		return fmt.Errorf("%w: the controller %s is not mounted", ErrUnsupported, blkioController)
	}
	if _, err := os.Stat(filepath.Join(directory, throttleRead)); err != nil {
		return fmt.Errorf("%w: the kernel has no %s", ErrUnsupported, throttleRead)
	}
	return nil
}

// SetIO bounds how many bytes the group's processes read from each of these disks in a
// second, and write to it, now and until the next SetIO; 0 = as many as they like. Other
// disks keep their bounds. A disk that is gone is left out.
func (g *Group) SetIO(disks []Disk, bytes uint64) error {
	directories, err := g.present()
	if err != nil {
		return err
	}
	for _, disk := range disks {
		if isV2() {
			bound := "max"
			if bytes != 0 {
				bound = fmt.Sprint(bytes)
			}
			err = writeFile(directories[""], ioMax, fmt.Sprintf("%s rbps=%s wbps=%s", disk, bound, bound))
		} else {
			bound := fmt.Sprintf("%s %d", disk, bytes)
			err = errors.Join(writeFile(directories[blkioController], throttleRead, bound), writeFile(directories[blkioController], throttleWrite, bound))
		}
		if err != nil && !gone(err) {
			return fmt.Errorf("bound what cgroup %s reads from and writes to disk %s: %w", g.path, disk, err)
		}
	}
	if err != nil { // of the last one: was it the disk or the group?
		_, err = g.present()
	}
	return err
}
