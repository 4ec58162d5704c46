package network

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// askName asks as the C library does.
func (p *place) askName(patience time.Duration) (answer dnsmessage.Message, took time.Duration) {
	p.t.Helper()
	question := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("example.org."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := question.Pack()
	must(p.t, err)
	begin := time.Now()
	p.do(func() error {
		conn, err := net.Dial("udp", netip.AddrPortFrom(DNS, dnsPort).String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write(packed); err != nil {
			return err
		}
		bytes := make([]byte, 512)
		n, err := conn.Read(bytes)
		return errors.Join(err, answer.Unpack(bytes[:n]))
	})
	return answer, time.Since(begin)
}

// useResolver replaces the node's settings for names, in the tests' mount namespace.
func useResolver(t *testing.T, text string) {
	t.Helper()
	path := t.TempDir() + "/resolv.conf"
	must(t, os.WriteFile(path, []byte(text), 0o644))
	must(t, unix.Mount(path, hostResolver, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(hostResolver, unix.MNT_DETACH)) })
}

// TestNameServersGone: a job is told that no name server answers, before its C library asks
// again: at once where nothing listens, and in a time of which each silent one has a part.
func TestNameServersGone(t *testing.T) {
	newOutside(t)
	job, _ := newJob(t, 7, Policy{})
	useResolver(t, "nameserver 127.0.0.54\nnameserver 127.0.0.55\n")
	answer, took := job.askName(10 * answerPatience)
	if answer.RCode != dnsmessage.RCodeServerFailure || !answer.Response || answer.ID != 7 || len(answer.Questions) != 1 || took >= answerPatience {
		t.Errorf("nothing listens: %+v after %v", answer, took)
	}
	if got := failed([]byte("no question")); got != nil {
		t.Errorf("an answer to what is no question: %q", got)
	}
	packed, err := answer.Pack()
	must(t, err)
	if got := failed(packed); got != nil {
		t.Errorf("an answer to an answer: %q", got)
	}
	silent, err := net.ListenPacket("udp", "127.0.0.54:53")
	must(t, err)
	defer silent.Close()
	if answer, took = job.askName(10 * answerPatience); answer.RCode != dnsmessage.RCodeServerFailure || took < answerPatience/2 {
		t.Errorf("one is silent: %+v after %v", answer, took)
	}
}

// TestFlood: a job that sends to everybody at once has its bound of connections, and what
// its node remembers of others stays. Other jobs and the node connect meanwhile.
func TestFlood(t *testing.T) {
	if !prototest.Soak(false, true) {
		t.Skip("needs make soak: the kernel counts for seconds")
	}
	outside := newOutside(t)
	node := &place{t, os.Getpid()}
	job, out := newJob(t, 7, Policy{})
	other, _ := newJob(t, 8, Policy{})
	must(t, os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_udp_timeout", []byte("600"), 0)) // a slow machine needs longer than the usual 30 s
	outside.do(func() error {                                                                   // else it tells the job that nobody listens, as often as it may
		return os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("1000"), 0)
	})
	flood := func(from string, ports int) {
		job.do(func() error {
			conn, err := net.ListenPacket("udp4", net.JoinHostPort(out.plan.V4.String(), from))
			if err != nil {
				return err
			}
			defer conn.Close()
			to := &net.UDPAddr{IP: netip.MustParseAddr(outsideAddress).AsSlice()}
			for to.Port = 1; to.Port <= ports; to.Port++ {
				_, _ = conn.WriteTo([]byte("flood"), to) // the kernel says what came back
			}
			return nil
		})
	}
	flood("4000", MaxConnections)
	flood("4001", MaxConnections/2)
	remembered := connectionsOf(t, out.plan.V4)
	t.Logf("%d connections are remembered", remembered)
	if remembered < MaxConnections/2 || remembered > MaxConnections {
		t.Errorf("%d connections of a job that floods are remembered, want %d at most", remembered, MaxConnections)
	}
	if got := job.reaches(outsideAddress + ":80"); got != "" {
		t.Errorf("the job has another connection: the outside sees %q", got)
	}
	if got := other.reaches(outsideAddress + ":80"); got != nodeAddress {
		t.Errorf("beside a job that floods another has no way out: the outside sees %q", got)
	}
	if got := node.reaches(outsideAddress + ":80"); got != nodeAddress {
		t.Errorf("beside a job that floods the node has no way out: the outside sees %q", got)
	}
}

// TestTenThousand: as many connections as a large job has go through at once, and bytes in
// each of them.
func TestTenThousand(t *testing.T) {
	if !prototest.Soak(false, true) {
		t.Skip("needs make soak: it takes half a minute")
	}
	const connections = 10_000
	outside := newOutside(t)
	job, _ := newJob(t, 7, Policy{})
	var listener net.Listener
	outside.do(func() (err error) {
		listener, err = net.Listen("tcp", ":90")
		return err
	})
	defer listener.Close()
	go func() { // it closes each, for a process may have some ten thousand descriptors only
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, conn.RemoteAddr())
			conn.Close()
		}
	}()
	all := make([]net.Conn, 0, connections)
	defer func() {
		for _, conn := range all {
			conn.Close()
		}
	}()
	job.do(func() error {
		for i := range connections {
			conn, err := net.DialTimeout("tcp", outsideAddress+":90", 10*time.Second)
			if err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			all = append(all, conn)
		}
		return nil
	})
	for i, conn := range all {
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, nodeAddress+":") {
			t.Fatalf("connection %d: %q, %v", i, line, err)
		}
	}
}

// connectionsOf counts what the kernel remembers of an address.
func connectionsOf(t *testing.T, address netip.Addr) int {
	t.Helper()
	flows, err := whole(func() ([]*netlink.ConntrackFlow, error) {
		return netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	})
	must(t, err)
	count := 0
	for _, flow := range flows {
		if flow.Forward.SrcIP.Equal(net.IP(address.AsSlice())) {
			count++
		}
	}
	return count
}
