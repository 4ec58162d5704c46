package shim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/moby/profiles/seccomp"
	devices "github.com/opencontainers/cgroups/devices/config"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runc/libcontainer/specconv"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/container"
)

// bareWord makes the test program start containers with libcontainer alone,
// for comparison: same namespaces, user mapping, filter, limits and devices.
const bareWord = "bare"

// bareMain runs /bin/true so many times and prints the median milliseconds
// from the call to its first instruction.
func bareMain(dir string, times int, parent string) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/", root, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	profile, err := seccomp.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		return err
	}
	var took []time.Duration
	for i := range times {
		filter, err := specconv.SetupSeccomp(profile)
		if err != nil {
			return err
		}
		group := cgroup.New(fmt.Sprintf("%s/%d", parent, i), cgroup.Limits{
			CPUWeight: 1, MemoryBytes: 512 << 20, Pids: 1000, Devices: container.AllowedDevices(nil), DenyOtherDevices: true,
		})
		ids := []configs.IDMap{{ContainerID: 0, HostID: container.HostIDBase, Size: 65536}}
		config := &configs.Config{
			Rootfs: root, ParentDeathSignal: int(unix.SIGKILL), NoNewPrivileges: true, Seccomp: filter, Cgroups: group.Config(),
			Capabilities: &configs.Capabilities{}, UIDMappings: ids, GIDMappings: ids, Hostname: "bare",
			Namespaces: configs.Namespaces{{Type: configs.NEWUSER}, {Type: configs.NEWNS}, {Type: configs.NEWPID}, {Type: configs.NEWIPC}, {Type: configs.NEWUTS}},
			Mounts: []*configs.Mount{
				{Destination: "/proc", Source: "proc", Device: "proc"},
				{Destination: "/dev", Source: "tmpfs", Device: "tmpfs", Data: "mode=755"},
				{Destination: "/dev/pts", Source: "devpts", Device: "devpts", Data: "newinstance,ptmxmode=0666"},
				{Destination: "/dev/shm", Source: "shm", Device: "tmpfs"},
			},
		}
		for _, d := range container.AllowedDevices(nil) {
			if path := map[int64]string{3: "/dev/null", 5: "/dev/zero", 7: "/dev/full", 8: "/dev/random", 9: "/dev/urandom"}[d.Minor]; d.Major == 1 && path != "" {
				config.Devices = append(config.Devices, &devices.Device{Path: path, FileMode: 0o666, Rule: devices.Rule{
					Type: devices.CharDevice, Major: d.Major, Minor: d.Minor, Permissions: "rw", Allow: true,
				}})
			}
		}
		begin := time.Now()
		c, err := libcontainer.Create(filepath.Join(dir, "state"), "bare-"+strconv.Itoa(i), config)
		if err != nil {
			return err
		}
		p := &libcontainer.Process{Init: true, Args: []string{"/bin/true"}, Cwd: "/", UID: 0, GID: 0}
		err = c.Run(p)
		took = append(took, time.Since(begin))
		if err == nil {
			_, err = p.Wait()
		}
		if err != nil {
			_ = c.Destroy()
			return err
		}
		if err := c.Destroy(); err != nil {
			return err
		}
	}
	slices.Sort(took)
	fmt.Print(took[len(took)/2].Microseconds())
	return nil
}

// bareMedian answers how long libcontainer alone takes.
func bareMedian(t testing.TB, times int) time.Duration {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "gleaner-bare-")
	must(t, err)
	t.Cleanup(func() {
		must(t, cgroup.New(parent+"-bare", cgroup.Limits{}).Remove())
		must(t, removeTree(dir))
	})
	must(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, bareWord, dir, strconv.Itoa(times), parent+"-bare")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	us, err := strconv.Atoi(string(out))
	must(t, err)
	return time.Duration(us) * time.Microsecond
}
