package container

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// resolverPath says which name servers programs ask.
const resolverPath = "/etc/resolv.conf"

// supplyResolver puts the job's own resolver settings in the place of the host's: in the
// job's layer of the root, so that they travel with its image. On many hosts the file is a
// link into /run, which a job does not see, and names a server that a job does not reach.
func supplyResolver(spec *Spec, points *mountPoints) error {
	if spec.Resolver == nil {
		return nil
	}
	parent, err := points.open(filepath.Dir(resolverPath), true, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return fmt.Errorf("supply %s: %w", resolverPath, err)
	}
	defer unix.Close(parent)
	if err := points.replace(parent, filepath.Base(resolverPath), spec.Resolver); err != nil {
		return fmt.Errorf("supply %s: %w", resolverPath, err)
	}
	return nil
}

// replace makes a file in the place of what is there, owned by the container's root.
func (p *mountPoints) replace(parent int, name string, content []byte) error {
	if err := unix.Unlinkat(parent, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	fd, err := userpath.Openat2(parent, name, unix.OpenHow{
		Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC, Mode: 0o644, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, content)
	return errors.Join(err, unix.Fchown(fd, hostID(p.s.uids, 0), hostID(p.s.gids, 0)), unix.Close(fd))
}
