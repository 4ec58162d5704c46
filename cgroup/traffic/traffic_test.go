package traffic

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

const megabyte = 1_000_000

// group makes a group of the v2 hierarchy, and one below it.
func group(t *testing.T) (above, below string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil {
			above = filepath.Join(root, fmt.Sprintf("traffic-test-%d", os.Getpid()))
			break
		}
	}
	if above == "" {
		t.Skip("needs a v2 hierarchy")
	}
	below = filepath.Join(above, "guest")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Skip("needs a v2 hierarchy that can be written to: ", err)
	}
	t.Cleanup(func() {
		// A child that was killed leaves the group when it is gone.
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			_ = os.Remove(below)
			err := os.Remove(above)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Error(err)
				return
			}
		}
	})
	return above, below
}

// child starts an end of a connection in a network namespace. Sockets belong to the group
// of the process that makes them, so the ends are processes of their own: see TestMain.
func child(t *testing.T, space netns.NsHandle, directory string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), "TRAFFIC_TEST_END=1", "TRAFFIC_TEST_GROUP="+directory)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		if err := netns.Set(space); err != nil {
			started <- err
			return
		}
		started <- command.Start()
		_ = command.Wait()
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	return command
}

// TestMain is also each end of a connection: it joins its group and sends, or receives.
func TestMain(m *testing.M) {
	if os.Getenv("TRAFFIC_TEST_END") == "" {
		os.Exit(m.Run())
	}
	if directory := os.Getenv("TRAFFIC_TEST_GROUP"); directory != "" {
		if err := os.WriteFile(filepath.Join(directory, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	connection, err := net.DialTimeout("tcp", os.Args[2], 5*time.Second)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Args[1] == "send" {
		block := make([]byte, 64<<10)
		for err == nil {
			_, err = connection.Write(block)
		}
		os.Exit(0)
	}
	_, _ = io.Copy(io.Discard, connection)
}

// wire is two network namespaces with a cable between them.
func wire(t *testing.T) (here, there netns.NsHandle) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	defer func() {
		if err := netns.Set(home); err != nil {
			panic(err)
		}
	}()
	spaces := [2]netns.NsHandle{}
	for i := range spaces {
		if spaces[i], err = netns.New(); err != nil {
			t.Skip("needs network namespaces: ", err)
		}
		t.Cleanup(func() { spaces[i].Close() })
	}
	handle, err := netlink.NewHandleAt(spaces[0])
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	if err := handle.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b", PeerNamespace: netlink.NsFd(spaces[1])}); err != nil {
		t.Skip("needs veth: ", err)
	}
	for i, name := range []string{"a", "b"} {
		end, err := netlink.NewHandleAt(spaces[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, up := range []string{"lo", name} {
			device, err := end.LinkByName(up)
			if err == nil {
				err = end.LinkSetUp(device)
			}
			if err == nil && up == name {
				var address *netlink.Addr
				if address, err = netlink.ParseAddr(fmt.Sprintf("10.99.7.%d/24", i+1)); err == nil {
					err = end.AddrAdd(device, address)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		end.Close()
	}
	return spaces[0], spaces[1]
}

// listen listens in a network namespace.
func listen(t *testing.T, space netns.NsHandle, address string) net.Listener {
	t.Helper()
	type answer struct {
		listener net.Listener
		err      error
	}
	done := make(chan answer)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(space); err != nil {
			done <- answer{nil, err}
			return
		}
		listener, err := net.Listen("tcp", address)
		done <- answer{listener, err}
	}()
	a := <-done
	if a.err != nil {
		t.Fatal(a.err)
	}
	t.Cleanup(func() { a.listener.Close() })
	return a.listener
}

// rate is how many bytes a second go over connections that children of a group make, each
// sending or receiving, in a while.
func rate(t *testing.T, from, to netns.NsHandle, address, directory, what string, children int, while time.Duration) float64 {
	t.Helper()
	listener := listen(t, to, address)
	total := make(chan int64, children)
	const settles = 300 * time.Millisecond
	for range children {
		command := child(t, from, directory, what, listener.Addr().String())
		defer func() { _ = command.Process.Kill() }()
		connection, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		go func() {
			count, block := int64(0), make([]byte, 64<<10)
			begin := time.Now()
			for time.Since(begin) < settles+while {
				_ = connection.SetDeadline(begin.Add(settles + while))
				pass := connection.Read
				if what == "receive" {
					pass = connection.Write
				}
				n, err := pass(block)
				if err != nil {
					break
				}
				if time.Since(begin) > settles {
					count += int64(n)
				}
			}
			total <- count
		}()
		if what == "receive" {
			_ = connection.(*net.TCPConn).SetWriteBuffer(64 << 10)
		}
	}
	sum := int64(0)
	for range children {
		sum += <-total
	}
	listener.Close()
	return float64(sum) / while.Seconds()
}

// TestLimit: what the processes of a group send and receive is bounded, all together and
// each way, and only on the wire; a group that is excepted sends what it likes; a later
// process that sets the limit replaces it, and lifts it.
func TestLimit(t *testing.T) {
	above, below := group(t)
	here, there := wire(t)
	limit := On(above)
	if err := limit.Check(); err != nil {
		t.Skip("needs a kernel with CONFIG_CGROUP_BPF: ", err)
	}
	const wired, looped = "10.99.7.2:0", "127.0.0.1:0"
	// A machine that is busy with other work is slow for a while, and late in stopping the
	// clock: what is not as it should be is looked at again.
	about := func(what string, rate func() float64, least, most float64) {
		t.Helper()
		var got float64
		for range 6 {
			got = rate() / megabyte
			t.Logf("%s: %.1f MB/s", what, got)
			if got >= least && got <= most {
				return
			}
		}
		t.Errorf("%s: %.1f MB/s, want %.1f to %.1f", what, got, least, most)
	}
	const free, brief = 100_000, 100 * time.Millisecond // MB/s that no machine reaches
	about("one receives, without a limit", func() float64 { return rate(t, here, there, wired, below, "receive", 1, brief) }, 40, free)
	if err := limit.Set(10 * megabyte); err != nil {
		t.Fatal(err)
	}
	about("one sends", func() float64 { return rate(t, here, there, wired, below, "send", 1, time.Second) }, 3, 18)
	about("three send", func() float64 { return rate(t, here, there, wired, below, "send", 3, time.Second) }, 3, 25)
	about("one receives", func() float64 { return rate(t, here, there, wired, below, "receive", 1, time.Second) }, 3, 18)
	about("on the loopback device", func() float64 { return rate(t, here, here, looped, below, "send", 1, brief) }, 40, free)
	about("outside of the group", func() float64 { return rate(t, here, there, wired, "", "send", 1, brief) }, 40, free)
	if err := limit.Except([]string{below, filepath.Join(above, "gone")}); err != nil {
		t.Fatal(err)
	}
	about("excepted", func() float64 { return rate(t, here, there, wired, below, "send", 1, brief) }, 40, free)
	if err := limit.Except(nil); err != nil {
		t.Fatal(err)
	}
	later := On(above) // as after a restart: the exceptions and the rate are its own
	if err := later.Set(20 * megabyte); err != nil {
		t.Fatal(err)
	}
	about("set by a later process", func() float64 { return rate(t, here, there, wired, below, "send", 1, time.Second) }, 6, 36)
	if err := later.Set(5 * megabyte); err != nil {
		t.Fatal(err)
	}
	about("lowered", func() float64 { return rate(t, here, there, wired, below, "send", 1, time.Second) }, 1.5, 9)
	if err := On(above).Clear(); err != nil {
		t.Fatal(err)
	}
	about("lifted", func() float64 { return rate(t, here, there, wired, below, "send", 1, brief) }, 40, free)
}
