package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// An inotify instance tells what happens in a directory, with the names of the files,
// and keeps no descriptor of it. CRIU adds the watches by the paths of the image, as
// the container's root. So each must be one that the user can add himself, at one of
// these paths and through no link.

// checkWatches refuses a tree that watches what its user may not. paths are those that
// its image watches.
func (c *Container) checkWatches(root *os.File, pids []int, paths []string) error {
	held, err := watchesOf(pids)
	if err != nil || len(held) == 0 {
		return err
	}
	instance, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("look for what the processes watch: %w", err)
	}
	defer unix.Close(instance)
	var missed error
	err = userpath.As(c.spec.User.Identity(), 0, func() error {
		for _, path := range paths {
			watch, err := watchAt(instance, root, path)
			if err != nil {
				missed = errors.Join(missed, fmt.Errorf("it watched %s: its user does not find it: %w", path, err))
			}
			delete(held, watch)
		}
		return nil
	})
	if err != nil || len(held) == 0 {
		return err
	}
	if missed == nil {
		missed = errors.New("it watched something that its user does not find at its path")
	}
	return fmt.Errorf("%w: %w", ErrMisfit, missed)
}

// watchesOf answers what processes watch, as the kernel names it. Marks of fanotify,
// which may be of whole file systems, are not restored at all.
func watchesOf(pids []int) (map[string]bool, error) {
	held := map[string]bool{}
	for _, pid := range pids {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			return nil, err
		}
		for _, link := range links {
			target, err := os.Readlink(link)
			if errors.Is(err, os.ErrNotExist) {
				continue // it was killed
			}
			if err != nil {
				return nil, err
			}
			if target == "anon_inode:[fanotify]" {
				return nil, fmt.Errorf("%w: it has fanotify open", ErrMisfit)
			}
			if target != "anon_inode:inotify" {
				continue
			}
			watches, err := readWatches(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, filepath.Base(link)))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			for _, watch := range watches {
				held[watch] = true
			}
		}
	}
	return held, nil
}

// readWatches answers what an inotify instance watches: of each line of proc_pid_fdinfo(5)
// what says of which file it is.
func readWatches(fdinfo string) (watches []string, err error) {
	text, err := os.ReadFile(fdinfo)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		fields, ok := strings.CutPrefix(line, "inotify ")
		if !ok {
			continue
		}
		var of []string
		for _, field := range strings.Fields(fields) {
			switch name, _, _ := strings.Cut(field, ":"); name {
			case "ino", "sdev", "fhandle-type", "f_handle":
				of = append(of, field)
			}
		}
		watches = append(watches, strings.Join(of, " "))
	}
	return watches, nil
}

// watchAt answers what is at a path, as readWatches names it. It is called as the user,
// who must be allowed to watch it.
func watchAt(instance int, root *os.File, path string) (string, error) {
	found, err := userpath.BeneathAsSelf(root, path)
	if err != nil {
		return "", err
	}
	defer found.Close()
	watch, err := unix.InotifyAddWatch(instance, fmt.Sprintf("/proc/self/fd/%d", found.Fd()), unix.IN_ATTRIB)
	if err != nil {
		return "", &os.PathError{Op: "watch", Path: path, Err: err}
	}
	defer unix.InotifyRmWatch(instance, uint32(watch))
	watches, err := readWatches(fmt.Sprintf("/proc/self/fdinfo/%d", instance))
	if err != nil {
		return "", err
	}
	if len(watches) != 1 {
		return "", &os.PathError{Op: "watch", Path: path, Err: unix.ESTALE}
	}
	return watches[0], nil
}
