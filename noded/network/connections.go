package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/thread"
)

// States of TCP sockets without another end, see the kernel's tcp_states.h.
const (
	tcpTimeWait = 6
	tcpClose    = 7
	tcpListen   = 10
)

// resetOutside resets all connections of a job that has just been restored, except those
// whose other end is in the job too, or in a network that it has besides this one: their
// other ends know nothing of this node. A program
// gets an error at once (ECONNABORTED), not after its patience, and may dial again.
func resetOutside(pid int) (count int, err error) {
	job, err := jobSide(pid)
	if err != nil {
		return 0, err
	}
	defer job.close()
	inside, err := job.inside()
	if err != nil {
		return 0, err
	}
	thread.Discard(func() {
		if err = unix.Setns(int(job.ns), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter the job's network: %w", err)
			return
		}
		count, err = resetHere(inside)
	})
	return count, err
}

// inside is where the routes of a job's namespace lead that are not default routes: to its
// own addresses, and to other networks of the job. On its link there is none but those.
func (s *side) inside() (all []netip.Prefix, err error) {
	list, err := s.routesLike(&netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("look at the job's network: %w", err)
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

// resetHere is resetOutside in the namespace of the calling thread.
func resetHere(inside []netip.Prefix) (count int, err error) {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := whole(func() ([]*netlink.Socket, error) { return netlink.SocketDiagTCP(family) })
		if err != nil {
			return count, fmt.Errorf("ask the kernel for the job's connections: %w", err)
		}
		for _, s := range sockets {
			remote, ok := netip.AddrFromSlice(s.ID.Destination)
			if s.State == tcpListen || s.State == tcpClose || s.State == tcpTimeWait || !ok || isIn(inside, remote.Unmap()) {
				continue
			}
			if err := reset(s); err != nil && !errors.Is(err, unix.ENOENT) {
				return count, fmt.Errorf("reset the connection to %s: %w", remote, err)
			}
			count++
		}
	}
	return count, nil
}

func isIn(nets []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(address) })
}

// reset closes a connection as if its other end had broken it off, see sock_diag(7).
func reset(s *netlink.Socket) error {
	request := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
	request.AddData((*resetRequest)(s))
	_, err := request.Execute(unix.NETLINK_INET_DIAG, 0)
	return err
}

// resetRequest is the kernel's struct inet_diag_req_v2 of a socket.
type resetRequest netlink.Socket

// Len implements nl.NetlinkRequestData.
func (r *resetRequest) Len() int { return 56 }

// Serialize implements nl.NetlinkRequestData.
func (r *resetRequest) Serialize() []byte {
	b := make([]byte, 0, r.Len())
	b = append(b, r.Family, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0)) // states
	b = binary.BigEndian.AppendUint16(b, r.ID.SourcePort)
	b = binary.BigEndian.AppendUint16(b, r.ID.DestinationPort)
	for _, ip := range [][]byte{r.ID.Source, r.ID.Destination} {
		var field [16]byte
		copy(field[:], ip)
		if r.Family == unix.AF_INET && len(ip) == 16 {
			copy(field[:], ip[12:])
			clear(field[4:])
		}
		b = append(b, field[:]...)
	}
	b = binary.NativeEndian.AppendUint32(b, r.ID.Interface)
	b = binary.NativeEndian.AppendUint32(b, r.ID.Cookie[0])
	return binary.NativeEndian.AppendUint32(b, r.ID.Cookie[1])
}
