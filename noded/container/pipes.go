package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// givePipes gives the pipes of restored processes, none of which runs, to their
// user. CRIU makes them as the container's root, and a program that has a pipe's path
// opens it again: /dev/stdout, or /dev/fd/63 as shells write for <(…).
func (c *Container) givePipes(pids []int) error {
	for _, pid := range pids {
		paths, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		if err != nil {
			return err
		}
		for _, path := range paths {
			var stat unix.Stat_t
			if err := unix.Stat(path, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO || stat.Uid != HostIDBase {
				continue
			}
			if err := os.Chown(path, int(c.spec.User.UID), int(c.spec.User.GID)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("give a restored pipe to its user: %w", err)
			}
		}
	}
	return nil
}
