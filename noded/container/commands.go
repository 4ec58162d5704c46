package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// commandsDir is where a login shell finds programs, whatever its profile does to
// PATH: that of Debian sets it to a list of its own.
const commandsDir = "/usr/local/bin"

// Program is the one that all commands are links to. Stager copies the files that are
// staged. PMIx serves the tasks of a step, where it was built.
const (
	Program = "gleaner"
	Stager  = "gstage"
	PMIx    = "gpmix"
)

// linkCommands links Gleaner's commands into commandsDir if the node keeps them in
// another directory, and those under Slurm's names. What the host itself has there stays. Nothing is made there if it
// is a separate file system of the host's.
func linkCommands(spec *Spec, points *mountPoints) error {
	if spec.CommandsDir == "" && spec.SlurmDir == "" {
		return nil
	}
	parent, err := points.open(commandsDir, true, 0)
	if err != nil {
		spec.log().Warn("jobs do not find the commands with the PATH of a login shell", "directory", commandsDir, "error", err)
		return nil
	}
	dir := os.NewFile(uintptr(parent), commandsDir)
	defer dir.Close()
	if id, err := userpath.MountID(dir); err != nil || !points.own[id] {
		spec.log().Warn("jobs do not find the commands with the PATH of a login shell: it is a file system of the host's", "directory", commandsDir, "error", err)
		return nil
	}
	for _, from := range []string{spec.CommandsDir, spec.SlurmDir} {
		if err := points.linkCommandsFrom(from, parent); err != nil {
			return err
		}
	}
	return nil
}

// linkCommandsFrom links all commands of a directory of the host's; "" has none.
func (p *mountPoints) linkCommandsFrom(dir string, parent int) error {
	if dir == "" {
		return nil
	}
	names, err := commandNames(dir)
	if err != nil {
		return fmt.Errorf("look for the commands: %w", err)
	}
	for _, name := range names {
		if err := p.linkCommand(parent, name, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("link %s in the container's %s: %w", name, commandsDir, err)
		}
	}
	return nil
}

// linkCommand makes a link unless something is there. A dangling link came with an
// image from a node that keeps its commands elsewhere.
func (p *mountPoints) linkCommand(parent int, name, target string) error {
	found, err := p.find(filepath.Join(commandsDir, name), 0, 0)
	if err == nil {
		return unix.Close(found)
	}
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := unix.Unlinkat(parent, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return p.makeLink(parent, name, target)
}

// commandNames are those of a directory: the programs, and what are links to the first.
func commandNames(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink != 0 {
			target, err := os.Readlink(filepath.Join(dir, entry.Name()))
			if err != nil || filepath.Base(target) != Program {
				continue
			}
		} else if entry.Name() != Program && entry.Name() != Stager && entry.Name() != PMIx {
			continue
		}
		names = append(names, entry.Name())
	}
	return names, nil
}
