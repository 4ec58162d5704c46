package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	"github.com/gleaner-hpc/gleaner/noded/shim/relay"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Where two nodes do not reach each other over UDP, the packets of a job's network go
// through the controllers, encrypted as they are: a detour. Whether they do reach each other
// is found out by trying. Of two allocations the one with the smaller index opens it.

const (
	// lookAtPeersEvery is how often each peer is looked at.
	lookAtPeersEvery = time.Second
	// silentFor is how long a peer may say nothing that could be heard before a detour.
	silentFor = 8 * time.Second
	// agreeEvery is longer than two peers that reach each other go without new keys.
	agreeEvery = 200 * time.Second
	// detourPause is how long after its end a detour is opened again.
	detourPause = time.Second
	// mostPacketBytes is the size of the largest packet of UDP.
	mostPacketBytes = 1<<16 - 1
)

// allocated are the nodes of an order, in the order of its allocations.
func allocated(order *pb.StartAlloc) (nodes []string) {
	for _, a := range order.Allocation {
		nodes = append(nodes, a.Node)
	}
	return nodes
}

// watchPeers opens detours to the peers that are silent, until the job ends.
func (p *alloc) watchPeers(ctx context.Context) {
	n, since, away := p.gang, map[netip.Addr]time.Time{}, map[netip.Addr]bool{}
	tick := time.NewTicker(lookAtPeersEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n.mu.Lock()
		peers := n.peers
		n.mu.Unlock()
		for _, peer := range peers {
			index := n.indexOf(peer)
			if index < n.index || away[peer.Address] {
				continue
			}
			if since[peer.Address].IsZero() {
				since[peer.Address] = time.Now()
			}
			last, err := n.end.Heard(peer)
			if errors.Is(err, gangnet.ErrDeaf) {
				delete(since, peer.Address) // it has its time again when it can be heard
			}
			if err != nil || time.Since(since[peer.Address]) < silentFor || time.Since(last) < agreeEvery {
				continue
			}
			away[peer.Address] = true
			p.log.Warn("the other node does not answer over UDP: the job's network goes through the controllers, which is slower; see whether a firewall is in the way", "node", n.nodes[index], "endpoint", peer.Endpoint)
			go p.detour(ctx, peer, n.nodes[index])
		}
	}
}

func (n *gangEnd) indexOf(peer gangnet.Peer) int {
	for i := range n.nodes {
		if address, err := gangnet.Address(n.prefix, i); err == nil && address == peer.Address {
			return i
		}
	}
	return -1
}

// detour keeps a tunnel to a peer, until the job ends.
func (p *alloc) detour(ctx context.Context, peer gangnet.Peer, node string) {
	for ctx.Err() == nil {
		err := func() error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			tunnel, err := p.relay.OpenTunnel(ctx, &pb.TunnelOpen{TargetNode: node, NetworkFrom: uint32(p.gang.index + 1)})
			if err != nil {
				return err
			}
			return p.gang.carry(ctx, peer, tunnel)
		}()
		p.log.Debug("a detour of the job's network has ended, and is opened again", "node", node, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(detourPause):
		}
	}
}

// packetsFrom carries what a peer sends through a tunnel that it has opened.
func (p *alloc) packetsFrom(ctx context.Context, index int, tunnel relay.PacketTunnel) {
	n := p.gang
	if n == nil || index < 0 || index >= len(n.nodes) {
		return
	}
	n.mu.Lock()
	peers := n.peers
	n.mu.Unlock()
	for _, peer := range peers {
		if n.indexOf(peer) == index {
			p.log.Info("the job's network to another node goes through the controllers", "node", n.nodes[index])
			err := n.carry(ctx, peer, tunnel)
			p.log.Debug("a detour of the job's network has ended", "node", n.nodes[index], "error", err)
			return
		}
	}
}

// carry passes packets on between a peer and the process that carries the network here,
// which takes a port of the loopback interface for the peer's.
func (n *gangEnd) carry(ctx context.Context, peer gangnet.Peer, tunnel relay.PacketTunnel) error {
	// By its address, rules of a firewall can tell this from packets of other nodes, also
	// where all nodes are on one machine.
	near, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(n.end.Message().GetPort())})
	if err != nil {
		return fmt.Errorf("open a port for a detour: %w", err)
	}
	defer near.Close()
	defer context.AfterFunc(ctx, func() { near.Close() })()
	at, err := netip.ParseAddrPort(near.LocalAddr().String())
	if err != nil {
		return err
	}
	peer.Endpoint = at
	if err := n.end.Move(peer); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		buffer := make([]byte, mostPacketBytes)
		for {
			size, err := near.Read(buffer)
			if err == nil {
				err = tunnel.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: append([]byte(nil), buffer[:size]...)}})
			}
			if err != nil {
				sent <- err
				return
			}
		}
	}()
	for {
		message, err := tunnel.Recv()
		if err == nil && len(message.GetData()) > 0 {
			_, _ = near.Write(message.GetData()) // packets may get lost
		}
		if err != nil {
			near.Close()
			<-sent
			return err
		}
	}
}
