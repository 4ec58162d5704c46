package wire

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	"github.com/gleaner-hpc/gleaner/noded/thread"
)

// kernel is the kernel's WireGuard. The interface is made in the job's network namespace by
// a process in the node's, so its UDP socket is the node's: nothing shows on the node.
//
// The kernel's WireGuard has no port while its interface is not there. So a socket of this
// process keeps the port meanwhile, and what arrives there vanishes.
type kernel struct {
	key    wgtypes.Key
	port   uint16
	keeper *net.UDPConn // has the port; nil = the interface has it
	peers  []gangnet.Peer
	space  netns.NsHandle // the job's; counts while speak is there
	speak  *wgctrl.Client // with the interface in it; nil = the link is cut
}

// errDeaf is returned while nobody can be heard: the interface is not there.
var errDeaf = errors.New("the link is cut")

// tryKernel says why the kernel's WireGuard cannot be used here; nil = it can. It makes an
// interface in a namespace of its own, which has the kernel load the module if there is one.
func tryKernel() (err error) {
	thread.Discard(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("make a network namespace: %w", err)
			return
		}
		if err = netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: gangnet.Device}}); err != nil {
			err = fmt.Errorf("make an interface of the kernel's WireGuard: %w", err)
			return
		}
		var speak *wgctrl.Client
		if speak, err = wgctrl.New(); err != nil {
			return
		}
		defer speak.Close()
		_, err = speak.Device(gangnet.Device)
	})
	return err
}

func (k *kernel) begin(key []byte, port uint16) (uint16, error) {
	var err error
	if k.key, err = wgtypes.NewKey(key); err != nil {
		return 0, err
	}
	k.port = port
	err = k.keep()
	if port != 0 && errors.Is(err, unix.EADDRINUSE) {
		err = nil // an interface that a killed process of this end has left has it: see open
	}
	return k.port, err
}

// keep takes the port.
func (k *kernel) keep() (err error) {
	if k.keeper, err = net.ListenUDP("udp", &net.UDPAddr{Port: int(k.port)}); err != nil {
		k.keeper = nil
		return err
	}
	k.port = k.keeper.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	return nil
}

func (k *kernel) give() {
	if k.keeper != nil {
		_ = k.keeper.Close() // nothing was written
		k.keeper = nil
	}
}

func (k *kernel) meet(peers []gangnet.Peer) error {
	k.peers = slices.Clone(peers)
	if k.speak == nil {
		return nil
	}
	return k.set(wgtypes.Config{ReplacePeers: true, Peers: k.configs()})
}

func (k *kernel) configs() []wgtypes.PeerConfig {
	all := make([]wgtypes.PeerConfig, len(k.peers))
	for i, p := range k.peers {
		all[i] = config(p)
	}
	return all
}

func config(p gangnet.Peer) wgtypes.PeerConfig {
	every := gangnet.KeepAliveS * time.Second
	c := wgtypes.PeerConfig{Endpoint: net.UDPAddrFromAddrPort(p.Endpoint), PersistentKeepaliveInterval: &every, ReplaceAllowedIPs: true}
	copy(c.PublicKey[:], p.Key)
	alone := netip.PrefixFrom(p.Address, p.Address.BitLen())
	c.AllowedIPs = []net.IPNet{{IP: alone.Addr().AsSlice(), Mask: net.CIDRMask(alone.Bits(), alone.Bits())}}
	return c
}

func (k *kernel) move(p gangnet.Peer) error {
	for i := range k.peers {
		if string(k.peers[i].Key) == string(p.Key) {
			k.peers[i].Endpoint = p.Endpoint
		}
	}
	if k.speak == nil {
		return nil
	}
	c := config(p)
	c.UpdateOnly, c.ReplaceAllowedIPs, c.AllowedIPs = true, false, nil
	return k.set(wgtypes.Config{Peers: []wgtypes.PeerConfig{c}})
}

func (k *kernel) set(c wgtypes.Config) error {
	if err := k.speak.ConfigureDevice(gangnet.Device, c); err != nil {
		return fmt.Errorf("set up the kernel's WireGuard: %w", err)
	}
	return nil
}

func (k *kernel) open(o *gangnet.Opened) (err error) {
	if err := k.cut(); err != nil {
		return err
	}
	if k.space, err = netns.GetFromPath(o.Namespace); err != nil {
		return fmt.Errorf("open the job's network %s: %w", o.Namespace, err)
	}
	err = gangnet.Within(o.Namespace, func() (err error) {
		k.speak, err = wgctrl.New()
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("speak with the kernel's WireGuard: %w", err), k.space.Close())
	}
	if err := k.raise(o); err != nil {
		return errors.Join(err, k.cut())
	}
	return nil
}

func (k *kernel) raise(o *gangnet.Opened) error {
	// One that a killed process of this end has left goes first, with the port.
	if err := k.remove(); err != nil {
		return err
	}
	link := netlink.LinkAttrs{Name: gangnet.Device, Namespace: netlink.NsFd(k.space)}
	if err := netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: link}); err != nil {
		return fmt.Errorf("make an interface for the job's network: %w", err)
	}
	port := int(k.port)
	k.give()
	if err := k.set(wgtypes.Config{PrivateKey: &k.key, ListenPort: &port, ReplacePeers: true, Peers: k.configs()}); err != nil {
		return err
	}
	return o.Raise()
}

func (k *kernel) cut() error {
	if k.speak == nil {
		return nil
	}
	err := errors.Join(k.remove(), k.speak.Close(), k.space.Close())
	k.speak = nil
	if err != nil {
		return err
	}
	if k.keeper != nil {
		return nil
	}
	if err := k.keep(); err != nil {
		return fmt.Errorf("keep UDP port %d for the job's network: %w", k.port, err)
	}
	return nil
}

// remove removes the interface, if it is there.
func (k *kernel) remove() error {
	handle, err := netlink.NewHandleAt(k.space, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("speak with the kernel about the job's network: %w", err)
	}
	defer handle.Close()
	link, err := handle.LinkByName(gangnet.Device)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err == nil {
		err = handle.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("remove the interface of the job's network: %w", err)
	}
	return nil
}

func (k *kernel) heard() (map[string]int64, error) {
	if k.speak == nil {
		return nil, errDeaf
	}
	device, err := k.speak.Device(gangnet.Device)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel's WireGuard: %w", err)
	}
	all := map[string]int64{}
	for _, p := range device.Peers {
		if at := p.LastHandshakeTime.Unix(); at > 0 {
			all[hex.EncodeToString(p.PublicKey[:])] = at
		}
	}
	return all, nil
}

func (k *kernel) close() error {
	err := k.cut()
	k.give()
	return err
}
