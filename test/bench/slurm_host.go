package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hostWord makes this program the first process of a Slurm host.
const hostWord = "slurm-host"

// Names below a Slurm host's directory.
const (
	hostRoot  = "root"  // what its processes see as /
	hostUpper = "upper" // what they write, over the unpacked packages
	hostWork  = "work"  // overlayfs's own
	hostSpool = "spool" // their state, not in the overlay but on the disk itself
)

const hostName = "bench"

// hostMain is process 1 of PID, mount, network, host name and IPC namespaces
// of its own: "slurm-host PACKAGES DIRECTORY SHARED". It makes the root that
// Slurm sees, says so, and adopts orphans until its standard input ends.
// With it ends, by the kernel's hand, everything that was started there.
func hostMain(packages, directory, shared string) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("%s is started by the benchmark, not by hand", hostWord)
	}
	root := filepath.Join(directory, hostRoot)
	for _, name := range []string{hostRoot, hostUpper, hostWork, hostSpool} {
		if err := os.MkdirAll(filepath.Join(directory, name), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("part from the machine's mounts: %w", err)
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", packages, filepath.Join(directory, hostUpper), filepath.Join(directory, hostWork))
	if err := unix.Mount("overlay", root, "overlay", 0, layers); err != nil {
		return fmt.Errorf("mount an overlay over %s: %w", packages, err)
	}
	if err := mountSystem(root); err != nil {
		return err
	}
	for source, target := range map[string]string{filepath.Join(directory, hostSpool): "/var/spool", shared: shared} {
		if err := bind(source, filepath.Join(root, target)); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte(hostName)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := raiseLoopback(); err != nil {
		return err
	}
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, unix.SIGCHLD)
	go func() {
		for range orphans {
			for pid, err := 1, error(nil); pid > 0 && err == nil; {
				pid, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
			}
		}
	}()
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// devices are the ones that Slurm and scripts open, by their kernel numbers.
var devices = []struct {
	name  string
	minor uint32
}{{"null", 3}, {"zero", 5}, {"full", 7}, {"random", 8}, {"urandom", 9}}

// mountSystem mounts what the kernel provides. The machine's own /dev is never
// bound: these are new device files, on a file system of their own.
func mountSystem(root string) error {
	for _, m := range []struct {
		kind, target string
		flags        uintptr
	}{
		{"proc", "/proc", 0}, {"sysfs", "/sys", unix.MS_RDONLY}, {"tmpfs", "/dev", 0}, {"tmpfs", "/run", 0},
	} {
		if err := unix.Mount(m.kind, filepath.Join(root, m.target), m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	shm := filepath.Join(root, "dev", "shm")
	if err := os.Mkdir(shm, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(shm, 0o1777); err != nil {
		return err
	}
	const memoryDevices = 1
	for _, d := range devices {
		path := filepath.Join(root, "dev", d.name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(memoryDevices, d.minor))); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return err
		}
	}
	return nil
}

func bind(source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", source, err)
	}
	return nil
}

// raiseLoopback makes 127.0.0.1 work in a new network namespace
// (netdevice(7)), and gives it a second address: getaddrinfo with
// AI_ADDRCONFIG, by which Slurm looks up its own ports, takes a machine whose
// one address is 127.0.0.1 for one without a network.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("raise the loopback device: %w", err)
	}
	defer unix.Close(socket)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("raise the loopback device: %w", err)
	}
	second, err := unix.NewIfreq("lo:1")
	if err == nil {
		err = second.SetInet4Addr([]byte{127, 0, 0, 2})
	}
	if err == nil {
		err = unix.IoctlIfreq(socket, unix.SIOCSIFADDR, second)
	}
	if err != nil {
		return fmt.Errorf("give the loopback device a second address: %w", err)
	}
	return nil
}
