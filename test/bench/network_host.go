package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	"github.com/gleaner-hpc/gleaner/noded/network"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// networkWord makes this program the first process of a machine whose network is measured.
const networkWord = "network-host"

// networkHost is process 1 of PID, mount and network namespaces, which are a node's.
type networkHost struct {
	gnoded  string
	lasts   time.Duration // each measurement of a stream
	figures []networkFigure
}

// networkMain measures, and prints the figures: "network-host GNODED MILLISECONDS".
func networkMain(gnoded, milliseconds string) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("%s is started by the benchmark, not by hand", networkWord)
	}
	lasts, err := strconv.Atoi(milliseconds)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		kind, at string
		flags    uintptr
	}{{"", "/", unix.MS_PRIVATE | unix.MS_REC}, {"proc", "/proc", 0}, {"tmpfs", "/run", 0}} {
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	if err := raiseLoopback(); err != nil {
		return err
	}
	h := &networkHost{gnoded: gnoded, lasts: time.Duration(lasts) * time.Millisecond}
	if err := errors.Join(h.parts(), h.waysOut()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(h.figures)
}

func (h *networkHost) add(m measure, c column, value float64) {
	h.figures = append(h.figures, networkFigure{Measure: m, Column: c, Value: value})
}

func (h *networkHost) missing(why string, c column, measures ...measure) {
	for _, m := range measures {
		h.figures = append(h.figures, networkFigure{Measure: m, Column: c, Why: why})
	}
}

// space is a network namespace, held by a process that does nothing.
type space struct {
	pid    int
	holder *exec.Cmd
}

func newSpace() (*space, error) {
	holder := exec.Command("sleep", "3600") // it ends with process 1
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := holder.Start(); err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	s := &space{holder.Process.Pid, holder}
	return s, s.within(raiseLoopback)
}

// hostSpace is the node's own.
func hostSpace() *space { return &space{pid: os.Getpid()} }

func (s *space) path() string { return fmt.Sprintf("/proc/%d/ns/net", s.pid) }

func (s *space) within(f func() error) error { return gangnet.Within(s.path(), f) }

func (s *space) end() {
	if s != nil && s.holder != nil {
		_ = s.holder.Process.Kill()
		_ = s.holder.Wait() // killed
	}
}

// pair links two namespaces with a veth, each end with its address.
func pair(name string, a *space, addressA string, b *space, addressB string) error {
	err := a.within(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name, PeerNamespace: netlink.NsPid(b.pid)})
	})
	if err != nil {
		return fmt.Errorf("make a veth: %w", err)
	}
	up := func(address string) func() error {
		return func() error {
			handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
			if err != nil {
				return err
			}
			defer handle.Close()
			link, err := handle.LinkByName(name)
			if err != nil {
				return err
			}
			at, err := netlink.ParseAddr(address)
			if err != nil {
				return err
			}
			return errors.Join(handle.AddrAdd(link, at), handle.LinkSetUp(link))
		}
	}
	return errors.Join(a.within(up(addressA)), b.within(up(addressB)))
}

// Addresses of what is made: those of documentation (RFC 5737).
const (
	vethFirst, vethSecond   = "192.0.2.1", "192.0.2.2"
	outHost, outDestination = "198.51.100.1", "198.51.100.2"
	shortMask               = "/24"
	measuredPort            = "7"
	networkMTU              = 1420
)

// parts measures between two nodes of a job, by each carrier, beside a veth between the same.
func (h *networkHost) parts() error {
	for _, c := range []struct {
		carrier      gangnet.Carrier
		stream, trip measure
	}{{gangnet.Userspace, partsUserspace, partsUserspaceTrip}, {"", partsKernel, partsKernelTrip}} {
		if err := h.partsBy(c.carrier, c.stream, c.trip); err != nil {
			return fmt.Errorf("between two nodes of a job: %w", err)
		}
	}
	return nil
}

func (h *networkHost) partsBy(carrier gangnet.Carrier, stream, trip measure) error {
	gang := gangnet.Network{V4: netip.MustParsePrefix("198.18.4.0/30"), V6: netip.MustParsePrefix("fd6c:9a3e:11f2:7e06:0:4::/96")}
	var spaces [2]*space
	var ends [2]*gangnet.End
	for i := range spaces {
		var err error
		if spaces[i], err = newSpace(); err != nil {
			return err
		}
		defer spaces[i].end()
		if ends[i], err = gangnet.Begin(h.gnoded, "bench", carrier, gang, i, networkMTU, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
		defer ends[i].Close()
		if err := gangnet.Settle(spaces[i].path(), gang, ends[i].Addresses()); err != nil {
			return err
		}
	}
	if carrier == "" && ends[0].Carrier() != gangnet.Kernel {
		h.missing("this kernel has no WireGuard", ours, stream, trip)
		return nil
	}
	local := func(string) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }
	for i := range ends {
		told := []*pb.NetworkPeer{{Index: uint32(1 - i), Address: "here", End: ends[1-i].Message()}}
		peers, err := gangnet.Peers(gang, i, told, local)
		if err == nil {
			err = ends[i].Meet(peers, networkMTU)
		}
		if err == nil {
			err = ends[i].Open(spaces[i].path())
		}
		if err != nil {
			return err
		}
	}
	if err := pair("plain", spaces[0], vethFirst+shortMask, spaces[1], vethSecond+shortMask); err != nil {
		return err
	}
	return errors.Join(
		h.measure(spaces[1], spaces[0], ends[0].Addresses().V4.String(), ours, []measure{stream}, []measure{trip}),
		h.measure(spaces[1], spaces[0], vethFirst, bareColumn, []measure{stream}, []measure{trip}))
}

// waysOut measures from a job to the outside, beside the node itself, pasta and slirp4netns.
func (h *networkHost) waysOut() error {
	outside, err := newSpace()
	if err != nil {
		return err
	}
	defer outside.end()
	node := hostSpace()
	if err := pair("up0", node, outHost+shortMask, outside, outDestination+shortMask); err != nil {
		return err
	}
	if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(outDestination)}); err != nil { // pasta looks for it
		return fmt.Errorf("set the node's default route: %w", err)
	}
	if err := h.ownWayOut(outside); err != nil {
		return fmt.Errorf("a job's way out: %w", err)
	}
	if err := h.measure(node, outside, outDestination, bareColumn, []measure{wayOut}, []measure{wayOutTrip}); err != nil {
		return fmt.Errorf("the host's way out: %w", err)
	}
	for _, o := range []struct {
		stream, trip measure
		program      string
		arguments    func(*space) ([]string, error)
	}{{wayOutPasta, wayOutTripPasta, "pasta", pastaFor}, {wayOutSlirp, wayOutTripSlirp, "slirp4netns", slirpFor}} {
		if err := h.otherWayOut(outside, o.program, o.arguments, o.stream, o.trip); err != nil {
			h.missing(fmt.Sprintf("%s: %v", o.program, err), bareColumn, o.stream, o.trip)
		}
	}
	return nil
}

// ownWayOut is Gleaner's. Its figures stand beside those of each other way.
func (h *networkHost) ownWayOut(outside *space) error {
	routes, err := network.Routes()
	if err != nil {
		return err
	}
	ranges, err := network.ChooseRanges(network.Ranges{}, routes)
	if err != nil {
		return err
	}
	job, err := newSpace()
	if err != nil {
		return err
	}
	defer job.end()
	out := network.New(network.Config{Who: "bench", Job: 1, Number: 1, Node: "bench", Ranges: ranges})
	if err := out.Join(job.pid, false); err != nil {
		return errors.Join(err, out.Close())
	}
	err = h.measure(job, outside, outDestination, ours, []measure{wayOut, wayOutPasta, wayOutSlirp}, []measure{wayOutTrip, wayOutTripPasta, wayOutTripSlirp})
	return errors.Join(err, out.Close())
}

// otherWayOut is one that a process makes.
func (h *networkHost) otherWayOut(outside *space, program string, arguments func(*space) ([]string, error), stream, trip measure) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return errors.New("it is not installed (Debian: apt-get install passt slirp4netns)")
	}
	job, err := newSpace()
	if err != nil {
		return err
	}
	defer job.end()
	words, err := arguments(job)
	if err != nil {
		return err
	}
	process := exec.Command(path, words...)
	if err := process.Start(); err != nil {
		return err
	}
	defer func() {
		_ = process.Process.Kill()
		_ = process.Wait() // killed
	}()
	return h.measure(job, outside, outDestination, bareColumn, []measure{stream}, []measure{trip})
}

// pastaFor are the arguments for a namespace. pasta drops the right to look into /proc.
func pastaFor(job *space) ([]string, error) {
	const at = "/run/pasta"
	if err := errors.Join(os.WriteFile(at, nil, 0o600), unix.Mount(job.path(), at, "", unix.MS_BIND, "")); err != nil {
		return nil, err
	}
	return []string{"--runas", "0", "--netns-only", "--netns", at, "--config-net", "--no-map-gw", "-f", "-q", "-t", "none", "-u", "none", "-T", "none", "-U", "none"}, nil
}

func slirpFor(job *space) ([]string, error) {
	return []string{"--configure", "--mtu=65520", "--disable-host-loopback", strconv.Itoa(job.pid), "tap0"}, nil
}
