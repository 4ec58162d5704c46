package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// probeWord is the first argument of a process that tries to open devices
// from within a container's control group.
const probeWord = "device-probe"

// probeTimeout bounds the life of that process.
const probeTimeout = 20 * time.Second

// maxProbed bounds how many devices are tried.
const maxProbed = 64

// deviceProbe is such a process. It is started beside CRIU, and waits until it is in
// the group: to start a program takes longer than to try devices.
type deviceProbe struct {
	cmd   *exec.Cmd
	begin io.Closer // closed when it may begin
	out   strings.Builder
	once  sync.Once
	err   error // how it ended
}

// startProbe starts the process. The caller ends it.
func startProbe(ctx context.Context, spec *Spec) (*deviceProbe, error) {
	foreign, err := foreignDevices(spec)
	if err != nil {
		return nil, err
	}
	if len(foreign) == 0 {
		return nil, errors.New("the device rules cannot be tried: the host shows no device that the job must not open")
	}
	p := &deviceProbe{cmd: exec.CommandContext(ctx, "/proc/self/exe", append([]string{probeWord}, foreign...)...)}
	if p.begin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.cmd.Stdout = &p.out
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("try the device rules: %w", err)
	}
	return p, nil
}

// try makes sure that a process of the group can open only the devices that the group
// has, which shows that the kernel has its device rules. It may be called once.
func (p *deviceProbe) try(group *cgroup.Group) error {
	late := time.AfterFunc(probeTimeout, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	if err := group.Add(p.cmd.Process.Pid); err != nil {
		return fmt.Errorf("try the device rules: %w", err)
	}
	p.begin.Close() // the process is in the group
	p.once.Do(func() { p.err = p.cmd.Wait() })
	if p.err != nil {
		return fmt.Errorf("try the device rules: %w", p.err)
	}
	if p.out.String() != "" {
		return fmt.Errorf("the control group lets the job open %s, which is not its own", strings.TrimSpace(p.out.String()))
	}
	return nil
}

// tryDevices makes sure that the container's control group, which has its limits and its
// rules, keeps a process in it from other devices.
func (c *Container) tryDevices(probe *deviceProbe) error {
	group, err := cgroup.Open(c.spec.Cgroup.Path)
	if err != nil {
		return err
	}
	return probe.try(group)
}

// end ends the process, if it has not ended.
func (p *deviceProbe) end() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		p.err = p.cmd.Wait()
	})
}

// foreignDevices answers devices of the host that a container must not open: the
// node's other GPUs first.
func foreignDevices(spec *Spec) ([]string, error) {
	allowed := AllowedDevices(spec.Devices)
	var foreign []string
	for _, path := range spec.OtherDevices {
		if len(foreign) < maxProbed && isForeign(path, allowed) {
			foreign = append(foreign, path)
		}
	}
	for _, pattern := range []string{"/dev/mem", "/dev/kmsg", "/dev/nvidia[0-9]*", "/dev/fuse", "/dev/loop-control", "/dev/net/tun"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if len(foreign) < maxProbed && isForeign(path, allowed) {
				foreign = append(foreign, path)
			}
		}
	}
	return foreign, nil
}

// isForeign says whether path is a character device that is not among allowed.
// It leaves block devices alone: opening one may start a drive.
func isForeign(path string, allowed []cgroup.Device) bool {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFCHR {
		return false
	}
	for _, d := range allowed {
		if d.Type == 'c' && d.Major == int64(unix.Major(stat.Rdev)) && (d.Minor == cgroup.Any || d.Minor == int64(unix.Minor(stat.Rdev))) {
			return false
		}
	}
	return true
}

// openEach is the process: it names each device that it could open. The
// kernel asks the control group before it asks the device's driver, so an
// error of the driver's means that the group allows the device.
func openEach(paths []string) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, path := range paths {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) { // EACCES: no device can be opened there
			fmt.Println(path)
		}
	}
	os.Exit(0)
}
