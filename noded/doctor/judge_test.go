package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// one makes a list of findings what want takes.
func one(t *testing.T, found ...finding.Finding) map[string]finding.Finding {
	t.Helper()
	return byCheck(t, finding.Report{Findings: found})
}

func TestParseRelease(t *testing.T) {
	for release, expected := range map[string][2]int{"6.1.0-18-amd64": {6, 1}, "5.19": {5, 19}, "6.18.44-fc": {6, 18}, "7.0-rc1": {7, 0}} {
		if major, minor, ok := parseRelease(release); !ok || major != expected[0] || minor != expected[1] {
			t.Errorf("%s: %d %d %v", release, major, minor, ok)
		}
	}
	for _, release := range []string{"", "6", "six.one", "6.x"} {
		if _, _, ok := parseRelease(release); ok {
			t.Errorf("%q is a release", release)
		}
	}
}

func TestKernelOptions(t *testing.T) {
	text := "# CONFIG_X is not set\n"
	for _, option := range neededOptions {
		text += option.name + "=y\n"
	}
	judge := func(text string) map[string]finding.Finding {
		options, err := parseOptions(strings.NewReader(text))
		must(t, err)
		d := &doctor{kernel: kernel{release: "6.1.0", options: options, source: "/boot/config"}}
		return one(t, d.checkKernel(t.Context())...)
	}
	want(t, judge(strings.Replace(text, "OVERLAY_FS=y", "OVERLAY_FS=m", 1)), "kernel", finding.OK)
	want(t, judge(strings.Replace(text, "CONFIG_CHECKPOINT_RESTORE=y", "# CONFIG_CHECKPOINT_RESTORE is not set", 1)),
		"kernel", finding.Failed, "lacks CONFIG_CHECKPOINT_RESTORE (", "linux-image-amd64")
	d := &doctor{kernel: kernel{release: "6.1.0"}}
	want(t, one(t, d.checkKernel(t.Context())...), "kernel", finding.OK, "does not tell")
}

// Programs named criu of every kind that is met: the first that works is taken,
// and what is wrong with those before it is told.
func TestCRIU(t *testing.T) {
	const good = `[ "$1" = --version ] && echo Version: 4.2.1 && exit; echo Looks good.`
	for name, c := range map[string]struct {
		scripts []string
		status  finding.Status
		words   []string
	}{
		"none":      {nil, finding.Warning, []string{"not installed", "debian.sh criu"}},
		"old":       {[]string{"echo Version: 3.17.1; echo GitID: v3"}, finding.Warning, []string{"3.17.1: it is older than version 4"}},
		"unwilling": {[]string{`[ "$1" = --version ] && echo Version: 4.2 && exit; echo one; echo "Error (criu/x.c): vdso"; exit 1`}, finding.Warning, []string{"vdso", "exit status 1"}},
		"silent":    {[]string{"true"}, finding.Warning, []string{"--version does not answer"}},
		"good":      {[]string{good}, finding.OK, []string{"4.2.1"}},
		"second":    {[]string{"echo Version: 3.17.1", good}, finding.OK, []string{"1/criu 4.2.1", "not ", "0/criu 3.17.1: it is older"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			programs := []string{filepath.Join(dir, "criu")}
			for i, script := range c.scripts {
				path := filepath.Join(dir, strconv.Itoa(i), "criu")
				must(t, os.Mkdir(filepath.Dir(path), 0o755))
				must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
				programs = append(programs, path)
			}
			d := &doctor{root: true}
			want(t, one(t, d.tryCRIU(t.Context(), programs)...), "checkpoints", c.status, c.words...)
		})
	}
}

// TestConfiguredCRIU: what gnoded.toml names is tried, and nothing else.
func TestConfiguredCRIU(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine")
	d := &doctor{root: true}
	d.config.Checkpoint.CRIU = path
	want(t, one(t, d.checkCRIU(t.Context())...), "checkpoints", finding.Warning, path, "no such program")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\necho Version: 4.9.9\n"), 0o755))
	want(t, one(t, d.checkCRIU(t.Context())...), "checkpoints", finding.OK, path, "4.9.9")
}

func TestUsers(t *testing.T) {
	const good = "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n"
	for name, c := range map[string]struct {
		files  map[string]string
		status finding.Status
		words  []string
	}{
		"good":          {map[string]string{"passwd": good}, finding.OK, []string{"1 in /etc/passwd", "files"}},
		"nobody":        {map[string]string{"passwd": "root:x:0:0::/:/bin/sh\n"}, finding.Warning, []string{"no ordinary user", "useradd"}},
		"taken":         {map[string]string{"passwd": good + "deep:x:2100000007:1::/:/bin/sh\n"}, finding.Failed, []string{"user deep has the number 2100000007"}},
		"subordinate":   {map[string]string{"passwd": good, "subuid": "ann:100000:65536\nbob:2099999999:2\n"}, finding.Failed, []string{"gives bob the numbers 2099999999 to 2100000000"}},
		"just below":    {map[string]string{"passwd": good, "subgid": "bob:2099999998:2\n"}, finding.OK, nil},
		"sssd is dead":  {map[string]string{"passwd": good, "nsswitch.conf": "passwd: files sss # and\n"}, finding.Failed, []string{"/var/lib/sss/pipes/nss is not there", "systemctl enable --now sssd"}},
		"sssd runs":     {map[string]string{"nsswitch.conf": "passwd: files sss\n", "../var/lib/sss/pipes/nss": ""}, finding.OK, []string{"files, sss"}},
		"nslcd":         {map[string]string{"passwd": good, "nsswitch.conf": "group: files\npasswd: files ldap\n"}, finding.Warning, []string{"nscd"}},
		"nslcd by nscd": {map[string]string{"nsswitch.conf": "passwd: files ldap\n", "../run/nscd/socket": ""}, finding.OK, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.files {
				path := filepath.Join(root, "etc", file)
				must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must(t, os.WriteFile(path, []byte(text), 0o644))
			}
			want(t, one(t, judgeUsers(root)...), "users", c.status, c.words...)
		})
	}
}

func TestHardwareWithoutDriver(t *testing.T) {
	bus := t.TempDir()
	for address, about := range map[string][2]string{
		"0000:17:00.0": {"0x10de\n", "0x030200\n"}, "0000:17:00.1": {"0x10de\n", "0x040300\n"}, "0000:00:02.0": {"0x8086\n", "0x030000\n"},
	} {
		must(t, os.Mkdir(filepath.Join(bus, address), 0o755))
		must(t, os.WriteFile(filepath.Join(bus, address, "vendor"), []byte(about[0]), 0o644))
		must(t, os.WriteFile(filepath.Join(bus, address, "class"), []byte(about[1]), 0o644))
	}
	if found := nvidiaHardware(bus); len(found) != 1 {
		t.Errorf("hardware at %v", found)
	}
	want(t, one(t, judgeNoDriver(nvidiaHardware(bus))), gpusName, finding.Warning, "at 0000:17:00.0", "nvidia-driver")
	want(t, one(t, judgeNoDriver(nil)), gpusName, finding.OK)
}

func TestDevices(t *testing.T) {
	good := gpu.Configured{ID: "a", Model: "a100", Path: "/dev/null"}
	want(t, one(t, judgeDevices("gnoded.toml names", gpu.FromConfiguration([]gpu.Configured{good}))), gpusName, finding.OK, "names 1 a100, all sound")
	bad := gpu.Configured{ID: "b", Model: "h100", Path: "/dev/gleaner-nothing"}
	want(t, one(t, judgeDevices("gnoded.toml names", gpu.FromConfiguration([]gpu.Configured{good, bad}))), gpusName, finding.Failed, "1 a100, 1 h100", "(b) is failed", "/dev/gleaner-nothing")
	want(t, one(t, judgeDriver(gpu.Driver{Version: "570.1", Forgetful: []int{0, 3}}, nil)), "NVIDIA driver", finding.Warning, "off for GPU 0 3", "nvidia-persistenced")
	want(t, one(t, judgeDriver(gpu.Driver{}, errors.New("version mismatch"))), "NVIDIA driver", finding.Failed, "version mismatch")
}

func TestGroupAdvice(t *testing.T) {
	want(t, one(t, badControllers(cgroup.Info{Version: cgroup.V2, Controllers: []string{"cpu", "devices", "freezer", "pids"}}, []string{"memory"}, "/gleaner/n1")),
		"control groups", finding.Failed, "a group below /gleaner/n1 has cpu", "cgroup_enable=memory", "update-grub")
	for cause, word := range map[error]string{cgroup.ErrOccupied: "set cgroup_parent", cgroup.ErrNoFreezer: "-o freezer", errDeviceRule: "CONFIG_CGROUP_BPF"} {
		want(t, one(t, badGroups(cause)), "control groups", finding.Failed, word)
	}
}
