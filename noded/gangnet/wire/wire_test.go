package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestMain is the process of an end, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == gangnet.Word {
		if err := Main(os.Stdin, os.Stdout, slog.Default()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// part is one of a job's, in a network namespace of its own.
type part struct {
	*gangnet.End
	namespace string
}

var network = gangnet.Network{V4: netip.MustParsePrefix("198.18.4.0/29"), V6: netip.MustParsePrefix("fd6c:9a3e:11f2:7e06:0:4::/96")}

func newPart(t testing.TB, carrier gangnet.Carrier, index int) *part {
	t.Helper()
	needs(t, carrier)
	_, namespace := newNamespace(t)
	p := &part{namespace: namespace}
	var err error
	if p.End, err = gangnet.Begin(os.Args[0], t.Name(), carrier, network, index, 1420, slog.Default()); err != nil {
		t.Fatal(err)
	}
	if p.Carrier() != carrier {
		t.Fatalf("it is carried by %s", p.Carrier())
	}
	t.Cleanup(p.Close)
	if err := gangnet.Settle(p.namespace, network, p.Addresses()); err != nil {
		t.Fatal(err)
	}
	return p
}

// needs skips what needs the kernel's WireGuard where there is none.
func needs(t testing.TB, carrier gangnet.Carrier) {
	t.Helper()
	if carrier != gangnet.Kernel {
		return
	}
	if err := tryKernel(); err != nil {
		t.Skip("needs WireGuard in the kernel: ", err)
	}
}

// newNamespace answers a process in a network namespace of its own, and the path of that.
func newNamespace(t testing.TB) (*os.Process, string) {
	t.Helper()
	holder := exec.Command("sleep", "1000")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := prototest.StartTied(holder); err != nil {
		t.Skip("needs root: ", err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	return holder.Process, fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
}

// pairs are what two parts may be carried by.
var pairs = map[string][2]gangnet.Carrier{
	"userspace": {gangnet.Userspace, gangnet.Userspace},
	"kernel":    {gangnet.Kernel, gangnet.Kernel},
	"both":      {gangnet.Kernel, gangnet.Userspace},
}

// meet tells each of all about the others, and opens the links. Packets from i to j go
// through the port that through answers for them; nil = straight there.
func meet(t testing.TB, through func(i, j int) uint32, all ...*part) {
	t.Helper()
	for i, p := range all {
		var told []*pb.NetworkPeer
		for j, other := range all {
			if i != j {
				end := other.Message()
				if through != nil {
					end.Port = through(i, j)
				}
				told = append(told, &pb.NetworkPeer{Index: uint32(j), Address: "127.0.0.1", End: end})
			}
		}
		peers, err := gangnet.Peers(network, i, told, func(text string) netip.Addr { return netip.MustParseAddr(text) })
		if err == nil {
			err = p.Meet(peers, gangnet.CommonMTU(1420, told))
		}
		if err == nil {
			err = p.Open(p.namespace)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestConnectionsOutliveTheLink: numbers go from one part to another, while the link of
// either is cut and comes back, and the process of one is killed. None is lost, none comes
// twice.
func TestConnectionsOutliveTheLink(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for version, of := range map[string]func(gangnet.Addresses) netip.Addr{"IPv4": func(a gangnet.Addresses) netip.Addr { return a.V4 }, "IPv6": func(a gangnet.Addresses) netip.Addr { return a.V6 }} {
				t.Run(version, func(t *testing.T) {
					t.Parallel()
					connectionsOutliveTheLink(t, newPart(t, pair[0], 0), newPart(t, pair[1], 1), of)
				})
			}
		})
	}
}

func connectionsOutliveTheLink(t *testing.T, first, second *part, of func(gangnet.Addresses) netip.Addr) {
	meet(t, nil, first, second)
	in, out := connectAt(t, first, second, of(first.Addresses()).String())
	stop := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			if _, err := fmt.Fprintln(out, n); err != nil {
				return
			}
			select {
			case <-stop:
				_ = out.(*net.TCPConn).CloseWrite()
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	lines := bufio.NewReader(in)
	next := 0
	hear := func(least int) {
		t.Helper()
		for range least {
			_ = in.SetReadDeadline(time.Now().Add(prototest.Patience))
			line, err := lines.ReadString('\n')
			if err != nil || strings.TrimSpace(line) != fmt.Sprint(next) {
				t.Fatalf("%q, %v after %d", line, err, next)
			}
			next++
		}
	}
	hear(100)
	for _, p := range []*part{first, second} {
		if err := p.Cut(); err != nil {
			t.Fatal(err)
		}
		if devices := devicesIn(t, p.namespace); strings.Contains(devices, gangnet.Device) {
			t.Fatalf("the link is there after it was cut:\n%s", devices)
		}
		time.Sleep(200 * time.Millisecond)
		if err := p.Open(p.namespace); err != nil {
			t.Fatal(err)
		}
		hear(200)
	}
	if process, err := os.FindProcess(second.Pid()); err != nil || process.Kill() != nil {
		t.Fatal("there is no process to kill")
	}
	hear(1000) // until another has begun in its place
	close(stop)
	if rest, err := io.ReadAll(lines); err != nil {
		t.Fatal(err)
	} else if words := strings.Fields(string(rest)); len(words) > 0 && words[0] != fmt.Sprint(next) {
		t.Fatalf("%s follows %d", words[0], next-1)
	}
}

func devicesIn(t *testing.T, namespace string) (text string) {
	t.Helper()
	err := gangnet.Within(namespace, func() error {
		all, err := net.Interfaces()
		for _, device := range all {
			text += device.Name + "\n"
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestAddressesOfTheLink: programs that look for an interface's addresses find both.
func TestAddressesOfTheLink(t *testing.T) {
	p := newPart(t, gangnet.Userspace, 0)
	for range 2 { // it comes back after a cut
		if err := p.Open(p.namespace); err != nil {
			t.Fatal(err)
		}
		var seen []net.Addr
		err := gangnet.Within(p.namespace, func() error {
			link, err := net.InterfaceByName(gangnet.Device)
			if err == nil {
				seen, err = link.Addrs()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		own := p.Addresses()
		for _, want := range []netip.Prefix{netip.PrefixFrom(own.V4, network.V4.Bits()), netip.PrefixFrom(own.V6, network.V6.Bits())} {
			if !strings.Contains(fmt.Sprint(seen), want.String()) {
				t.Errorf("%s is not among %v", want, seen)
			}
		}
		if err := p.Cut(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGoneWithItsSupervisor: when nobody asks any more, process and link go.
func TestGoneWithItsSupervisor(t *testing.T) {
	for _, carrier := range []gangnet.Carrier{gangnet.Userspace, gangnet.Kernel} {
		t.Run(string(carrier), func(t *testing.T) { goneWithItsSupervisor(t, newPart(t, carrier, 0)) })
	}
}

func goneWithItsSupervisor(t *testing.T, p *part) {
	if err := p.Open(p.namespace); err != nil {
		t.Fatal(err)
	}
	if devices := devicesIn(t, p.namespace); !strings.Contains(devices, gangnet.Device) {
		t.Fatalf("no link:\n%s", devices)
	}
	p.Close()
	if devices := devicesIn(t, p.namespace); strings.Contains(devices, gangnet.Device) {
		t.Fatalf("the link stays:\n%s", devices)
	}
}

// connect answers the two ends of a connection between two parts.
func connect(t testing.TB, first, second *part) (in, out net.Conn) {
	t.Helper()
	return connectAt(t, first, second, first.Addresses().V4.String())
}

// connectAt is connect, to that address of the first.
func connectAt(t testing.TB, first, second *part, address string) (in, out net.Conn) {
	t.Helper()
	var listener net.Listener
	err := gangnet.Within(first.namespace, func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	err = gangnet.Within(second.namespace, func() (err error) {
		out, err = net.DialTimeout("tcp", listener.Addr().String(), prototest.Patience)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	in, err = listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); out.Close() })
	return in, out
}

// weather is what lies between two parts.
type weather struct {
	lost    atomic.Int32 // of a hundred packets
	late    atomic.Int32 // milliseconds
	largest atomic.Int32 // what is larger does not get through
	blocked [2]atomic.Bool
}

// between answers the ports at which the packets of the first and the second part go
// through the weather.
func (w *weather) between(t *testing.T, first, second *part) (toSecond, toFirst uint32) {
	t.Helper()
	var sockets [2]*net.UDPConn // packets to the part with that number arrive there
	for i := range sockets {
		var err error
		if sockets[i], err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sockets[i].Close() })
	}
	for i, p := range []*part{first, second} {
		to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(p.Message().GetPort())}
		go func() {
			for n := 0; ; n++ {
				packet := make([]byte, 65536)
				size, err := sockets[i].Read(packet)
				if err != nil {
					return
				}
				if int32(n*37%100) < w.lost.Load() || w.blocked[i].Load() || int32(size) > w.largest.Load() {
					continue
				}
				// It comes from where an answer would go.
				time.AfterFunc(time.Duration(w.late.Load())*time.Millisecond, func() { _, _ = sockets[1-i].WriteToUDP(packet[:size], to) })
			}
		}()
	}
	port := func(i int) uint32 { return uint32(sockets[i].LocalAddr().(*net.UDPAddr).Port) }
	return port(1), port(0)
}

// TestBadWeather: a megabyte goes from one part to the other while packets are lost and
// late, while one way is cut for a while, and while large packets do not get through.
func TestBadWeather(t *testing.T) {
	first, second := newPart(t, gangnet.Userspace, 0), newPart(t, gangnet.Userspace, 1)
	var w weather
	w.largest.Store(65536)
	toSecond, toFirst := w.between(t, first, second)
	meet(t, func(i, _ int) uint32 { return []uint32{toSecond, toFirst}[i] }, first, second)
	in, out := connect(t, first, second)
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * i >> 7)
	}
	for _, c := range []struct {
		name  string
		begin func()
	}{
		{"good", func() {}},
		{"lost and late", func() { w.lost.Store(2); w.late.Store(2) }},
		{"one way cut", func() { w.blocked[0].Store(true); time.AfterFunc(time.Second, func() { w.blocked[0].Store(false) }) }},
		{"small packets only", func() { w.largest.Store(1200) }},
	} {
		w.lost.Store(0)
		w.late.Store(0)
		c.begin()
		begin := time.Now()
		go func() { _, _ = out.Write(sent) }()
		got := make([]byte, len(sent))
		_ = in.SetReadDeadline(time.Now().Add(prototest.Patience))
		if n, err := io.ReadFull(in, got); err != nil {
			t.Fatalf("%s: %v after %d bytes", c.name, err, n)
		}
		if !bytes.Equal(got, sent) {
			t.Errorf("%s: it arrived damaged", c.name)
		}
		t.Logf("%s: %v", c.name, time.Since(begin).Round(time.Millisecond))
	}
}
