package network

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Remove removes what a killed supervisor has left of its job's way out. who is what its
// Config had. It may be called again, and where nothing is left.
//
// The kernel does not do that in time. It keeps a namespace, and the link that leads there,
// until the last of its connections is closed, and it waits minutes for a byte that nobody
// acknowledges any more. So long the job could not resume on this node: its address was in use.
func Remove(who string) error {
	node, err := nodeSide()
	if err != nil {
		return err
	}
	defer node.close()
	if err := node.removeLink(LinkName(who)); err != nil {
		return err
	}
	return node.stopForwarding()
}

// Sweep removes the links of jobs below a directory that are none any more. isAlloc says
// of a name in that directory whether somebody looks after it.
func Sweep(directory string, isAlloc func(name string) bool) error {
	node, err := nodeSide()
	if err != nil {
		return err
	}
	defer node.close()
	links, err := node.links()
	if err != nil {
		return fmt.Errorf("read the node's interfaces: %w", err)
	}
	removed, failures := false, []error(nil)
	for _, l := range links {
		_, who, _ := strings.Cut(l.Attrs().Alias, ": ")
		name, below := strings.CutPrefix(who, directory+"/")
		if !isOurs(l) || !below || l.Attrs().Name != LinkName(who) || isAlloc(name) {
			continue
		}
		removed = true
		failures = append(failures, node.removeLink(l.Attrs().Name))
	}
	if removed {
		failures = append(failures, node.stopForwarding())
	}
	return errors.Join(failures...)
}

// removeLink removes a link, and with it the routes to the job.
func (s *side) removeLink(name string) error {
	link, err := s.LinkByName(name)
	if err == nil {
		err = s.LinkDel(link)
	}
	if missing := (netlink.LinkNotFoundError{}); err != nil && !errors.As(err, &missing) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the link %s of a job: %w", name, err)
	}
	return nil
}
