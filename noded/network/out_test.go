package network

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/thread"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// TestMain runs the tests in a network of their own, which is the node's. Nothing is sent
// beyond it.
func TestMain(m *testing.M) {
	const inside = "NETWORK_TEST_INSIDE"
	if os.Getuid() != 0 || os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), inside+"=1")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := command.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Addresses of the node and of the outside.
const (
	nodeAddress, outsideAddress   = "198.51.100.1", "198.51.100.2"
	nodeAddress6, outsideAddress6 = "2001:db8::1", "2001:db8::2"
)

// place is a network namespace, held by a process that does nothing.
type place struct {
	t   *testing.T
	pid int
}

func newPlace(t *testing.T, flags uintptr) *place {
	t.Helper()
	holder := exec.Command("sleep", "60")
	// Not with Pdeathsig: the thread that starts it may end.
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | flags}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	p := &place{t, holder.Process.Pid}
	p.do(func() error { return up("lo") })
	return p
}

// do runs something in the namespace.
func (p *place) do(f func() error) {
	p.t.Helper()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", p.pid))
	if err != nil {
		p.t.Fatal(err)
	}
	defer ns.Close()
	thread.Discard(func() {
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
			err = f()
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

func up(name string) error {
	handle, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer handle.Close()
	link, err := handle.LinkByName(name)
	if err != nil {
		return err
	}
	return handle.LinkSetUp(link)
}

func down(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetDown(link)
}

// give gives an interface an address.
func give(name, address string) error {
	handle, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer handle.Close()
	link, err := handle.LinkByName(name)
	if err != nil {
		return err
	}
	parsed, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	parsed.Flags = unix.IFA_F_NODAD
	return handle.AddrAdd(link, parsed)
}

// newOutside makes the world beyond the node: a namespace behind an interface, with a
// server at port 80 that says who asks.
func newOutside(t *testing.T) *place {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	outside := newPlace(t, 0)
	// Else its neighbours could not answer in the first second.
	noDAD := func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0) }
	must(t, noDAD())
	outside.do(noDAD)
	must(t, up("lo"))
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up0"}, PeerName: "eth0", PeerNamespace: netlink.NsPid(outside.pid)}
	must(t, netlink.LinkAdd(veth))
	t.Cleanup(func() { _ = netlink.LinkDel(veth) })
	must(t, errors.Join(give("up0", nodeAddress+"/24"), give("up0", nodeAddress6+"/64"), up("up0")))
	outside.do(func() error {
		return errors.Join(give("eth0", outsideAddress+"/24"), give("eth0", outsideAddress6+"/64"), up("eth0"))
	})
	await := func(name string) error {
		side, err := nodeSide()
		if err != nil {
			return err
		}
		defer side.close()
		return side.awaitUp(name)
	}
	must(t, await("up0"))
	outside.do(func() error { return await("eth0") })
	outside.serve("tcp", ":80")
	outside.serve("tcp", ":81")
	return outside
}

// serve answers each connection with the address of who made it, and then echoes.
func (p *place) serve(network, at string) {
	var listener net.Listener
	p.do(func() (err error) {
		listener, err = net.Listen(network, at)
		return err
	})
	p.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprintln(conn, conn.RemoteAddr())
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
}

// dial connects from the namespace.
func (p *place) dial(address string) (conn net.Conn, err error) {
	p.t.Helper()
	p.do(func() error {
		conn, err = net.DialTimeout("tcp", address, time.Second)
		return nil
	})
	return conn, err
}

// reaches says which address the server sees; "" = it was not reached.
func (p *place) reaches(address string) string {
	p.t.Helper()
	conn, err := p.dial(address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	line, _ := bufio.NewReader(conn).ReadString('\n')
	host, _, _ := net.SplitHostPort(strings.TrimSpace(line))
	return host
}

// newJob makes a job's network with a way out.
func newJob(t *testing.T, number uint32, policy Policy) (*place, *Out) {
	t.Helper()
	job := newPlace(t, syscall.CLONE_NEWUSER)
	routes, err := Routes()
	must(t, err)
	ranges, err := ChooseRanges(Ranges{}, routes)
	must(t, err)
	out := New(Config{Who: fmt.Sprintf("%s %d %d", t.Name(), number, job.pid), Job: number, Number: number, Node: "n1", Ranges: ranges, Policy: policy})
	t.Cleanup(func() { must(t, out.Close()) })
	begin := time.Now()
	must(t, out.Join(job.pid, false))
	t.Logf("joined in %v", time.Since(begin))
	return job, out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWayOut: a job reaches the outside with the node's address, and nobody reaches it.
func TestWayOut(t *testing.T) {
	outside := newOutside(t)
	job, out := newJob(t, 7, Policy{})
	other, _ := newJob(t, 8, Policy{})
	must(t, os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("0"), 0))
	if got := job.reaches(outsideAddress + ":80"); got != nodeAddress {
		t.Errorf("the outside sees %q, want the node's address", got)
	}
	node := &place{t, os.Getpid()}
	node.serve("tcp", ":82")
	job.serve("tcp", ":83")
	own := out.plan.V4.String()
	for name, reached := range map[string]string{
		"the job reaches the node's service":            job.reaches(nodeAddress + ":82"),
		"the job reaches another job":                   other.reaches(own + ":83"),
		"the node reaches the job":                      node.reaches(own + ":83"),
		"the job reaches the node by its own gateway":   job.reaches("169.254.1.1:82"),
		"the job reaches the outside by IPv6, unpassed": job.reaches("[" + outsideAddress6 + "]:80"),
	} {
		if reached != "" {
			t.Errorf("%s as %s", name, reached)
		}
	}
	if got := job.reaches(own + ":83"); got != own {
		t.Errorf("the job reaches itself as %q", got)
	}
	outside.do(func() error {
		handle, err := netlink.NewHandle()
		if err != nil {
			return err
		}
		defer handle.Close()
		link, err := handle.LinkByName("eth0")
		if err != nil {
			return err
		}
		return handle.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: cidr(out.plan.V4), Gw: net.ParseIP(nodeAddress)})
	})
	if got := outside.reaches(own + ":83"); got != "" {
		t.Errorf("the outside reaches the job as %s", got)
	}
}

// TestIPv6: where the node passes it on.
func TestIPv6(t *testing.T) {
	newOutside(t)
	must(t, os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0))
	defer func() { must(t, os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("0"), 0)) }()
	job, out := newJob(t, 7, Policy{})
	if got := job.reaches("[" + outsideAddress6 + "]:80"); got != nodeAddress6 {
		t.Errorf("the outside sees %q, want the node's address", got)
	}
	node := &place{t, os.Getpid()}
	node.serve("tcp", ":82")
	job.serve("tcp", ":83")
	if got := job.reaches("[" + nodeAddress6 + "]:82"); got != "" {
		t.Errorf("the job reaches the node as %s", got)
	}
	if got := node.reaches("[" + out.plan.V6.String() + "]:83"); got != "" {
		t.Errorf("the node reaches the job as %s", got)
	}
}

// TestPolicy: only what is allowed.
func TestPolicy(t *testing.T) {
	newOutside(t)
	allowed, err := spec.ParseDestination(outsideAddress + ":81")
	must(t, err)
	job, _ := newJob(t, 7, Policy{Allow: []spec.Destination{allowed}})
	if got := job.reaches(outsideAddress + ":81"); got != nodeAddress {
		t.Errorf("what is allowed is not reached: %q", got)
	}
	begin := time.Now()
	if got := job.reaches(outsideAddress + ":80"); got != "" {
		t.Errorf("what is not allowed is reached as %s", got)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("the refusal took %v: it is told at once", took)
	}
	closed, _ := newJob(t, 8, Policy{Closed: true})
	if got := closed.reaches(outsideAddress + ":80"); got != "" {
		t.Errorf("the outside is reached without a way out, as %s", got)
	}
}

// TestLinkIsCut: a connection goes on when the link comes back.
func TestLinkIsCut(t *testing.T) {
	newOutside(t)
	job, out := newJob(t, 7, Policy{})
	conn, err := job.dial(outsideAddress + ":80")
	must(t, err)
	defer conn.Close()
	lines := bufio.NewReader(conn)
	_, err = lines.ReadString('\n')
	must(t, err)
	for range 3 {
		must(t, out.Hold())
		must(t, out.Release())
		fmt.Fprintln(conn, "still there")
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if line, err := lines.ReadString('\n'); err != nil || line != "still there\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	// After a restore, it is reset at once, and may be made again.
	must(t, out.Hold())
	must(t, out.Join(job.pid, true))
	if _, err := lines.ReadString('\n'); !errors.Is(err, unix.ECONNABORTED) {
		t.Errorf("the connection of before is not reset: %v", err)
	}
	if got := job.reaches(outsideAddress + ":80"); got != nodeAddress {
		t.Errorf("the outside sees %q, want the node's address", got)
	}
}

// TestFirewallIsReloaded: what others flush and set does not touch the job's rules.
func TestFirewallIsReloaded(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft: it plays an administrator of the host's firewall")
	}
	newOutside(t)
	must(t, nft("add table inet mine; add chain inet mine input { type filter hook input priority 0 ; }"))
	job, out := newJob(t, 7, Policy{})
	must(t, nft("flush ruleset; add table inet mine; add chain inet mine input { type filter hook input priority 0 ; }"))
	if got := job.reaches(outsideAddress + ":80"); got != nodeAddress {
		t.Errorf("after a reload the outside sees %q, want the node's address", got)
	}
	must(t, out.Close())
	text, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
	must(t, err)
	if strings.Contains(string(text), Prefix) || !strings.Contains(string(text), "table inet mine") {
		t.Errorf("rules after the job's end:\n%s", text)
	}
	must(t, nft("delete table inet mine"))
}

func nft(text string) error {
	out, err := exec.Command("nft", text).CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

// TestNothingStays: links, rules and settings are gone with the last job, also where its
// supervisor was killed.
func TestNothingStays(t *testing.T) {
	newOutside(t)
	forwards := func() string {
		text, err := os.ReadFile(forwardingOf("up0"))
		must(t, err)
		return strings.TrimSpace(string(text))
	}
	if forwards() != "0" {
		t.Fatal("the node is a router before the first job")
	}
	_, first := newJob(t, 7, Policy{})
	_, second := newJob(t, 7, Policy{})
	if first.plan.V4 == second.plan.V4 {
		t.Errorf("two jobs have the address %s", first.plan.V4)
	}
	must(t, first.Close())
	if forwards() != "1" {
		t.Error("the node passes on nothing while a job is there")
	}
	must(t, second.Close())
	if forwards() != "0" {
		t.Error("the node is a router after the last job")
	}
	// As if it were killed: its descriptors are closed and its job's namespace goes.
	job, third := newJob(t, 9, Policy{})
	third.dns.close()
	third.table.close()
	must(t, syscall.Kill(job.pid, syscall.SIGKILL))
	if tables := tablesOf(t); !slices.Equal(tables, []string{guardTable}) {
		t.Errorf("tables after everything was killed: %v", tables)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := netlink.LinkByName(third.plan.Link); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the link is still there")
		}
	}
	must(t, Tidy())
	if forwards() != "0" {
		t.Error("the node is a router after the end of everything")
	}
	if tables := tablesOf(t); len(tables) > 0 {
		t.Errorf("tables after the end of everything: %v", tables)
	}
}

// tablesOf are the names of the node's tables of nftables.
func tablesOf(t *testing.T) (names []string) {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	tables, err := conn.ListTables()
	must(t, err)
	for _, table := range tables {
		names = append(names, table.Name)
	}
	return names
}

// TestKilledStillNoRouter: from a kill of all supervisors until somebody recovers their jobs,
// the node passes nothing on that is not for jobs.
func TestKilledStillNoRouter(t *testing.T) {
	outside := newOutside(t)
	inner := newPlace(t, 0)
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lan0"}, PeerName: "eth0", PeerNamespace: netlink.NsPid(inner.pid)}
	must(t, netlink.LinkAdd(veth))
	defer netlink.LinkDel(veth)
	must(t, errors.Join(give("lan0", "192.0.2.1/24"), up("lan0")))
	way := func(to, via string) func() error {
		return func() error {
			return netlink.RouteAdd(&netlink.Route{Dst: cidr(netip.MustParseAddr(to)), Gw: net.ParseIP(via)})
		}
	}
	inner.do(func() error { return errors.Join(give("eth0", "192.0.2.2/24"), up("eth0")) })
	inner.do(way(outsideAddress, "192.0.2.1"))
	outside.do(way("192.0.2.2", nodeAddress))
	_, out := newJob(t, 7, Policy{})
	check := func(when, want string) {
		t.Helper()
		if got := inner.reaches(outsideAddress + ":80"); got != want {
			t.Errorf("%s: the outside sees %q, want %q", when, got, want)
		}
	}
	check("a job is there", "")
	out.dns.close()
	out.table.close()
	check("its supervisor was killed", "")
	must(t, guard(nil)) // it is that which holds
	check("without the node's table", "192.0.2.2")
}

// TestKilledSupervisor: whoever recovers the job removes what its supervisor left, though the
// kernel keeps the namespace; so does whoever sweeps, where nobody knows the job any more.
func TestKilledSupervisor(t *testing.T) {
	newOutside(t)
	const directory = "/nowhere/jobs"
	begin := func(name string) *Out {
		job := newPlace(t, syscall.CLONE_NEWUSER)
		ranges, err := ChooseRanges(Ranges{}, nil)
		must(t, err)
		out := New(Config{Who: directory + "/" + name, Job: 7, Number: 7, Node: "n1", Ranges: ranges})
		must(t, out.Join(job.pid, false))
		out.dns.close()
		out.table.close()
		return out
	}
	stays := func(out *Out) bool {
		_, err := netlink.LinkByName(out.plan.Link)
		return err == nil
	}
	killed, alive := begin("7.1"), begin("8.1")
	must(t, Remove(killed.Who))
	if stays(killed) || !stays(alive) {
		t.Errorf("after the recovery of one: its link stays %v, the other's %v", stays(killed), stays(alive))
	}
	node, err := nodeSide()
	must(t, err)
	defer node.close()
	must(t, node.mustBeFree(killed.plan.V4))
	must(t, Remove(killed.Who)) // again

	must(t, Sweep("/elsewhere/jobs", func(string) bool { return false }))
	must(t, Sweep(directory, func(name string) bool { return name == "8.1" }))
	if !stays(alive) {
		t.Fatal("the link of a job that somebody looks after was swept away")
	}
	must(t, Sweep(directory, func(string) bool { return false }))
	if stays(alive) {
		t.Error("the link of a job that nobody knows stays")
	}
	if text, err := os.ReadFile(forwardingOf("up0")); err != nil || strings.TrimSpace(string(text)) != "0" {
		t.Errorf("the node is a router after the last job: %s, %v", text, err)
	}
}

// TestUnacknowledged: a connection that was closed in silence keeps a dead job's link. That is
// why Remove is needed.
func TestUnacknowledged(t *testing.T) {
	outside := newOutside(t)
	job, out := newJob(t, 7, Policy{})
	conn, err := job.dial(outsideAddress + ":80")
	must(t, err)
	outside.do(func() error { return down("eth0") })
	_, err = conn.Write([]byte("nobody hears this"))
	must(t, errors.Join(err, conn.Close()))
	out.dns.close()
	out.table.close()
	must(t, syscall.Kill(job.pid, syscall.SIGKILL))
	must(t, Remove(out.Who))
	if _, err := netlink.LinkByName(out.plan.Link); err == nil {
		t.Error("the link is still there")
	}
}

// TestAddressIsTaken: a restored job keeps its address, or is refused.
func TestAddressIsTaken(t *testing.T) {
	newOutside(t)
	_, first := newJob(t, 7, Policy{})
	job := newPlace(t, syscall.CLONE_NEWUSER)
	second := New(Config{Who: "second", Job: 9, Number: 9, Node: "n2", Ranges: first.Ranges})
	side, err := jobSide(job.pid)
	must(t, err)
	defer side.close()
	must(t, side.giveAddresses(&first.plan)) // as an image does
	if err := second.Join(job.pid, true); !errors.Is(err, ErrAddressTaken) {
		t.Errorf("two jobs have one address: %v", err)
	}
	must(t, first.Close())
	must(t, second.Join(job.pid, true))
	if second.plan.V4 != first.plan.V4 {
		t.Errorf("the job has %s, and had %s", second.plan.V4, first.plan.V4)
	}
	must(t, second.Close())
}

// TestNames: a job asks the node's name servers, over UDP and TCP.
func TestNames(t *testing.T) {
	newOutside(t)
	job, _ := newJob(t, 7, Policy{})
	server, err := net.ListenPacket("udp", "127.0.0.53:53")
	must(t, err)
	defer server.Close()
	streams, err := net.Listen("tcp", "127.0.0.53:53")
	must(t, err)
	defer streams.Close()
	must(t, os.WriteFile("/tmp/gleaner-resolv", []byte("search example.org\nnameserver 127.0.0.53\noptions edns0\n"), 0o644))
	defer os.Remove("/tmp/gleaner-resolv")
	must(t, unix.Mount("/tmp/gleaner-resolv", hostResolver, "", unix.MS_BIND, ""))
	defer unix.Unmount(hostResolver, unix.MNT_DETACH)
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(append([]byte("answer to "), buffer[:n]...), from)
		}
	}()
	go func() {
		for {
			conn, err := streams.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	for _, network := range []string{"udp", "tcp"} {
		var answer []byte
		job.do(func() error {
			conn, err := net.Dial(network, netip.AddrPortFrom(DNS, dnsPort).String())
			if err != nil {
				return err
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err := conn.Write([]byte("question")); err != nil {
				return err
			}
			answer = make([]byte, 512)
			n, err := conn.Read(answer)
			answer = answer[:n]
			return err
		})
		if !strings.Contains(string(answer), "question") {
			t.Errorf("%s: %q", network, answer)
		}
	}
	if got := string(Resolver()); !strings.Contains(got, "nameserver 169.254.1.53\nsearch example.org\noptions edns0\n") || strings.Contains(got, "127.0.0.53") {
		t.Errorf("/etc/resolv.conf inside:\n%s", got)
	}
}

// TestTry: the way out is tried, and what drops forwarded packets is noticed.
func TestTry(t *testing.T) {
	newOutside(t)
	ranges, err := ChooseRanges(Ranges{}, nil)
	must(t, err)
	begin := time.Now()
	must(t, Try(ranges))
	t.Logf("tried in %v", time.Since(begin))
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft: it plays an administrator of the host's firewall")
	}
	must(t, nft("add table inet mine; add chain inet mine forward { type filter hook forward priority 0 ; policy drop ; }"))
	if err := Try(ranges); !errors.Is(err, ErrNotPassed) {
		t.Errorf("a firewall that drops what is forwarded: %v", err)
	}
	must(t, nft("delete table inet mine"))
	links, err := netlink.LinkList()
	must(t, err)
	if len(links) != 2 {
		t.Errorf("interfaces after the trial: %d", len(links))
	}
}
