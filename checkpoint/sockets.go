package checkpoint

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// connections looks at the sockets of the tree, all of which are in the
// network namespace of its first process.
func (s *survey) connections(pids []int) error {
	if len(s.sockets) == 0 {
		return nil
	}
	first := pids[0]
	left := maps.Clone(s.sockets)
	// The job may stand while this is read. Most jobs have no sockets but those of process 1,
	// and the kernel's tables of connections are as large as the machine's memory allows: they
	// are read only for what is not found before. With peers, what is in nobody's hands counts
	// too.
	if err := s.unixSockets(first, left); err != nil {
		return err
	}
	if len(left) > 0 || len(s.peers) > 0 {
		network, err := networkOf(first)
		if err != nil || network == nil {
			return err
		}
		for _, table := range []string{"tcp", "tcp6"} {
			if err := s.streams(first, table, network, left); err != nil {
				return err
			}
		}
	}
	for _, table := range []string{"udp", "udp6", "netlink", "packet"} {
		if len(left) == 0 {
			break
		}
		lines, err := readTable(first, table)
		if err != nil {
			return err
		}
		for _, fields := range lines {
			for _, column := range inodeColumns[table] {
				if inode, err := strconv.ParseUint(fields.at(column), 10, 64); err == nil {
					delete(left, inode)
				}
			}
		}
	}
	for _, pid := range left {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			s.add(pid, Obstacle{What: "has a socket of a kind that cannot be saved", Remedy: waitOrSave})
		}
	}
	return nil
}

// inodeColumns are the columns of the tables in /proc/PID/net that name the inode.
var inodeColumns = map[string][]int{"tcp": {9}, "tcp6": {9}, "udp": {9}, "udp6": {9}, "netlink": {9}, "packet": {8}}

// columns are the fields of a line.
type columns []string

func (c columns) at(i int) string {
	if i < len(c) {
		return c[i]
	}
	return ""
}

// readTable reads a table of /proc/PID/net without its heading. A table that the
// kernel does not have is empty.
func readTable(pid int, name string) ([]columns, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the sockets: %w", err)
	}
	var lines []columns
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.Fields(line))
	}
	return lines[min(1, len(lines)):], nil
}

// States of a TCP socket that has no other end, see the kernel's tcp_states.h.
const (
	tcpSynReceived = "03"
	tcpTimeWait    = "06"
	tcpClose       = "07"
	tcpListen      = "0A"
)

// stream is one TCP socket of the tree.
type stream struct {
	pid           int
	local, remote netip.AddrPort
}

// network is the network namespace of the tree.
type network struct {
	private bool           // it is not the caller's
	inside  []netip.Prefix // where its routes lead, without the default route; of a private one
}

// networkOf answers the network namespace of a process; nil = it has gone.
func networkOf(pid int) (*network, error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("look at the network: %w", err)
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, nil
	}
	n := &network{private: own != theirs}
	if n.private {
		n.inside, err = insideOf(pid)
	}
	return n, err
}

// insideOf answers where the routes of a process's network lead, without the default route:
// to its own addresses, and to other networks of the tree.
func insideOf(pid int) (all []netip.Prefix, err error) {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return nil, nil // it has gone
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for the tree's routes: %w", err)
	}
	defer handle.Close()
	list, err := handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("ask the kernel for the tree's routes: %w", err)
	}
	for _, r := range list {
		if r.Dst == nil {
			continue
		}
		address, ok := netip.AddrFromSlice(r.Dst.IP)
		if bits, _ := r.Dst.Mask.Size(); ok && bits > 0 {
			all = append(all, netip.PrefixFrom(address.Unmap(), bits))
		}
	}
	return all, nil
}

// leadsOut says whether an address is beyond a network of the tree's own.
func (n *network) leadsOut(to netip.Addr) bool {
	return n.private && !slices.ContainsFunc(n.inside, func(p netip.Prefix) bool { return p.Contains(to) })
}

// streams looks for connections that lead out of the tree. In the tree's own network,
// all connections with both ends in the tree are saved; in the host's, none, because
// making one again needs a right over the host.
func (s *survey) streams(pid int, table string, in *network, left map[uint64]int) error {
	lines, err := readTable(pid, table)
	if err != nil {
		return err
	}
	var open []stream
	ends := map[[2]netip.AddrPort]bool{}
	for _, fields := range lines {
		inode, err := strconv.ParseUint(fields.at(inodeColumns[table][0]), 10, 64)
		if err != nil {
			continue
		}
		owner, ok := left[inode]
		if !ok {
			if s.halfWithPeer(fields, inode) {
				s.add(pid, Obstacle{What: fmt.Sprintf("is opening or closing a connection to another of its nodes, %s", parseAddress(fields.at(2))), Remedy: "try again", Passing: true})
			}
			continue
		}
		delete(left, inode)
		local, remote := parseAddress(fields.at(1)), parseAddress(fields.at(2))
		switch fields.at(3) {
		case tcpListen, tcpClose:
		default:
			open = append(open, stream{owner, local, remote})
			ends[[2]netip.AddrPort{local, remote}] = true
		}
	}
	for _, c := range open {
		inside := ends[[2]netip.AddrPort{c.remote, c.local}]
		switch {
		case !inside && in.private && s.withPeer(c.local, c.remote):
		case !inside && in.leadsOut(c.remote.Addr()):
			if !s.resets {
				s.add(c.pid, Obstacle{What: fmt.Sprintf("has a connection to %s, outside the job's network", c.remote), Remedy: "wait until it is closed, submit with --checkpoint-connections=close, which resets it when the job resumes, or " + saveItself})
			}
		case !inside:
			// In the tree's own network, it is being made or closed.
			s.add(c.pid, Obstacle{What: fmt.Sprintf("has a connection to %s", c.remote), Remedy: waitOrSave, Passing: in.private})
		case !in.private:
			s.add(c.pid, Obstacle{What: fmt.Sprintf("has a connection on the host's network to another process of the job, %s", c.remote), Remedy: "submit with --network=private"})
		}
	}
	return nil
}

// withPeer says whether a connection is one with a tree that is saved too.
func (s *survey) withPeer(local, remote netip.AddrPort) bool {
	return slices.ContainsFunc(s.peers, func(p netip.Prefix) bool { return p.Contains(local.Addr()) && p.Contains(remote.Addr()) })
}

// halfWithPeer says whether a line of a table is of a connection with such a tree that is in
// nobody's hands: it is being made, or what was written last before it was closed is still
// on its way. An image would lack it.
func (s *survey) halfWithPeer(fields columns, inode uint64) bool {
	if inode != 0 && fields.at(3) != tcpSynReceived || fields.at(3) == tcpTimeWait || fields.at(3) == tcpListen {
		return false
	}
	return s.withPeer(parseAddress(fields.at(1)), parseAddress(fields.at(2)))
}

// parseAddress reads "0100007F:1F90": words of four bytes as the processor
// keeps them, least significant first, and the port.
func parseAddress(text string) netip.AddrPort {
	address, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	if err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	number, err := strconv.ParseUint(port, 16, 16)
	ip, ok := netip.AddrFromSlice(raw)
	if err != nil || !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(number))
}

// unixSockets looks for connections whose other end is not in the tree.
func (s *survey) unixSockets(pid int, left map[uint64]int) error {
	lines, err := readTable(pid, "unix")
	if err != nil {
		return err
	}
	ours := map[uint64]int{}
	for _, fields := range lines {
		inode, err := strconv.ParseUint(fields.at(6), 10, 64)
		if owner, ok := left[inode]; ok && err == nil {
			ours[inode] = owner
			delete(left, inode)
			// CRIU finds out where a relative path leads.
			if path := strings.Join(fields[min(7, len(fields)):], " "); filepath.IsAbs(path) && !s.saved(path) {
				s.add(owner, boundObstacle(path))
			}
		}
	}
	if len(ours) == 0 {
		return nil
	}
	all, err := unixDiagnosis(pid)
	if err != nil {
		return err
	}
	names := make(map[uint64]string, len(all))
	for _, socket := range all {
		if socket.Name != nil {
			names[uint64(socket.DiagMsg.INode)], _, _ = strings.Cut(*socket.Name, "\x00")
		}
	}
	for _, socket := range all {
		inode := uint64(socket.DiagMsg.INode)
		owner, ok := ours[inode]
		if !ok || socket.Peer == nil || *socket.Peer == 0 {
			continue
		}
		peer := uint64(*socket.Peer)
		if _, inside := s.sockets[peer]; !inside {
			s.add(owner, Obstacle{
				What:   "is connected to a program outside of the job" + throughName(names[peer], names[inode]),
				Remedy: "wait until that is closed: a step, an attached session or a question to a service of the host",
			})
		}
	}
	return nil
}

// diagnosisTries is how often the kernel is asked again if sockets came and went
// meanwhile, because some may be missing in its answer. CRIU looks once more.
const diagnosisTries = 5

// unixDiagnosis asks for all sockets of a process's network, see sock_diag(7).
func unixDiagnosis(pid int) (all []*netlink.UnixDiagInfoResp, err error) {
	network, err := netns.GetFromPid(pid)
	if err != nil {
		return nil, nil // it has gone
	}
	defer network.Close()
	handle, err := netlink.NewHandleAt(network, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for its sockets: %w", err)
	}
	defer handle.Close()
	for range diagnosisTries {
		if all, err = handle.UnixSocketDiagInfo(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("ask the kernel for its sockets: %w", err)
	}
	return all, nil
}

// throughName answers the path of a connection's socket: the path of the end that
// listened, because only that one has a name.
func throughName(names ...string) string {
	for _, name := range names {
		if strings.HasPrefix(name, "/") {
			return " through " + name
		}
	}
	return ""
}
