package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/procfs"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// linkName is a host's way to the others, in its own namespace.
const linkName = "eth0"

// powerLimit bounds how long a host may take to be off: a process that waits
// for a stalled disk ends only when that answers.
const powerLimit = 20 * time.Second

// Host is one host. It is off until PowerOn.
type Host struct {
	Name   string
	Number int
	Disk   *Disk

	lab  *Lab
	wall *wall

	mu        sync.Mutex
	machine   *exec.Cmd // its process 1; nil = off
	orders    *orders
	off       chan struct{} // closed when it is off
	namespace string        // of its network, as /proc/PID/ns/net reads
}

// NewHost prepares a host with a disk of its own.
func (l *Lab) NewHost(name string, number int, diskMiB int64) (*Host, error) {
	disk, err := l.NewDisk(name, diskMiB)
	if err != nil {
		return nil, err
	}
	w, err := newWall()
	if err != nil {
		return nil, err
	}
	h := &Host{Name: name, Number: number, Disk: disk, lab: l, wall: w}
	l.hosts = append(l.hosts, h)
	return h, nil
}

// IP is the host's address.
func (h *Host) IP() net.IP { return ipOf(h.Number) }

// Namespace is that of the host's network, as /proc/PID/ns/net reads in each of
// its processes; "" while it is off.
func (h *Host) Namespace() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.namespace
}

// PowerOn starts the host: another boot id, and a clock since boot that begins
// at uptime.
func (h *Host) PowerOn(uptime time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.machine != nil {
		return fmt.Errorf("host %s is on already", h.Name)
	}
	bootFile := filepath.Join(h.lab.Directory, h.Name+".boot")
	if err := os.WriteFile(bootFile, []byte(uuid.NewString()+"\n"), 0o644); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	offset, err := bootOffset(uptime)
	if err != nil {
		return err
	}
	// unshare(1) enters the time namespace by executing what follows it.
	words := []string{"--time", "--boottime", offset, "--monotonic", offset, "--", self, InitWord, h.Name, bootFile}
	for _, other := range h.lab.hosts {
		if other != h {
			words = append(words, other.Disk.Path)
		}
	}
	command := exec.Command("unshare", words...)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if h.orders, err = newOrders(command); err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("switch host %s on: %w", h.Name, err)
	}
	off := make(chan struct{})
	h.machine, h.off = command, off
	go func() {
		_ = command.Wait()
		close(off)
	}()
	if err := h.connect(command.Process.Pid); err != nil {
		h.kill()
		return fmt.Errorf("connect host %s: %w", h.Name, err)
	}
	if err := h.orders.begin(); err != nil {
		h.kill()
		return fmt.Errorf("switch host %s on: %w", h.Name, err)
	}
	return nil
}

// bootOffset is what must be added to this machine's clock since boot.
func bootOffset(uptime time.Duration) (string, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return "", err
	}
	return strconv.FormatInt(int64((uptime-time.Duration(now.Nano()))/time.Second), 10), nil
}

// connect gives the host's network namespace a link to the bridge.
func (h *Host) connect(pid int) error {
	here := "v" + strconv.Itoa(h.Number)
	if old, err := netlink.LinkByName(here); err == nil { // its other end is in a namespace that is going
		_ = netlink.LinkDel(old)
	}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: here}, PeerName: "w" + strconv.Itoa(h.Number)}
	if err := netlink.LinkAdd(pair); err != nil {
		return err
	}
	inside, err := netlink.LinkByName(pair.PeerName)
	if err != nil {
		return err
	}
	namespace, err := netns.GetFromPid(pid)
	if err != nil {
		return err
	}
	defer namespace.Close()
	if err := errors.Join(netlink.LinkSetMaster(pair, h.lab.bridge), netlink.LinkSetUp(pair), netlink.LinkSetNsFd(inside, int(namespace))); err != nil {
		return err
	}
	handle, err := netlink.NewHandleAt(namespace)
	if err != nil {
		return err
	}
	defer handle.Close()
	if h.namespace, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil {
		return err
	}
	return h.setUpInside(handle, pair.PeerName)
}

func (h *Host) setUpInside(handle *netlink.Handle, former string) error {
	link, err := handle.LinkByName(former)
	if err != nil {
		return err
	}
	loopback, err := handle.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return handle.LinkSetName(link, linkName) },
		func() error { return h.wall.attach(handle, link) },
		func() error { return handle.AddrAdd(link, addressOf(h.Number)) },
		func() error { return handle.LinkSetUp(link) },
		func() error { return handle.LinkSetUp(loopback) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Plug takes the host's cable out, or puts it in again. A host that is off
// comes back with it in.
func (h *Host) Plug(in bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if in && h.machine == nil {
		return nil
	}
	link, err := netlink.LinkByName("v" + strconv.Itoa(h.Number))
	if err != nil {
		return err
	}
	if in {
		return netlink.LinkSetUp(link)
	}
	return netlink.LinkSetDown(link)
}

// PowerOff ends every process of the host at once, without asking them.
func (h *Host) PowerOff() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.machine == nil {
		return nil
	}
	return h.kill()
}

// kill is for who holds the lock. As with a real machine the control groups go
// too.
func (h *Host) kill() error {
	_ = h.machine.Process.Kill()
	if !waitThawing(h.off, h.group(), powerLimit) {
		return fmt.Errorf("host %s is still on after %v: a process of it does not end", h.Name, powerLimit)
	}
	h.orders.close()
	h.machine, h.namespace = nil, ""
	RemoveGroups(h.group())
	return nil
}

func (h *Host) group() string { return Group(h.lab.Directory) + "/" + h.Name }

// waitThawing waits for what ends once frozen processes hear that they were
// killed.
func waitThawing(ended <-chan struct{}, group string, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		select {
		case <-ended:
			return true
		case <-time.After(50 * time.Millisecond):
			thawGroups(group)
		}
	}
	return false
}

// On reports whether the host is on.
func (h *Host) On() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machine != nil
}

// Process is a process of some host, as the lab sees it.
type Process struct {
	PID       int
	Words     []string // of its command line
	Namespace string   // of its network
}

// Processes are all processes that the caller can see.
func Processes() []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || len(text) == 0 {
			continue
		}
		namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil {
			continue
		}
		all = append(all, Process{pid, strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), namespace})
	}
	return all
}

// Namespaces are those of the networks of a process and of its ancestors, its own first:
// what runs in a job with a network of its own descends from its node's supervisor.
func (p Process) Namespaces() []string {
	var all []string
	for pid := p.PID; pid > 1; {
		namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil {
			break // it has ended
		}
		all = append(all, namespace)
		process, err := procfs.NewProc(pid)
		if err != nil {
			break
		}
		stat, err := process.Stat()
		if err != nil {
			break
		}
		pid = stat.PPID
	}
	return all
}
