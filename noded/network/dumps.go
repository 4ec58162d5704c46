package network

import (
	"errors"
	"time"

	"github.com/vishvananda/netlink"
)

// The kernel lists its interfaces, routes and addresses piece by piece. If one of them
// changes meanwhile, which on a node with many jobs is often, it says that the list may
// lack something, and it has to be asked again.

const (
	mostDumps = 200
	dumpPause = 500 * time.Microsecond
)

// whole asks for a list until it is whole.
func whole[T any](ask func() ([]T, error)) (list []T, err error) {
	for range mostDumps {
		if list, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return list, err
		}
		time.Sleep(dumpPause)
	}
	return nil, err
}

// links are all interfaces of a namespace.
func (s *side) links() ([]netlink.Link, error) { return whole(s.LinkList) }

// addresses are those of an interface.
func (s *side) addresses(link netlink.Link) ([]netlink.Addr, error) {
	return whole(func() ([]netlink.Addr, error) { return s.AddrList(link, netlink.FAMILY_ALL) })
}

// routesLike are the routes of a namespace that are like one in what the mask names.
func (s *side) routesLike(like *netlink.Route, mask uint64) ([]netlink.Route, error) {
	return whole(func() ([]netlink.Route, error) { return s.RouteListFiltered(netlink.FAMILY_ALL, like, mask) })
}
