package noded

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gleaner-hpc/gleaner/noded/cdi"
	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/network"
	"github.com/gleaner-hpc/gleaner/proto/dial"
)

func TestParseConfig(t *testing.T) {
	got, err := ParseConfig([]byte(`
name = "n1"
controllers = ["unix:///run/x.sock", "c1.lab:6817"]
tls_dir = "/etc/gleaner/tls"
socket = "/run/n1.sock"
state_dir = "/var/lib/n1"
min_free_disk = "2G"
ginit = "/usr/libexec/ginit"
cpus = 64
memory = "512M"
features = ["infiniband", "avx512", "avx512"]
address = "10.0.0.1"
step_ports = "7000-7999"
cgroup_parent = "/gleaner-dev/n1"
log_level = "debug"

[container]
bind = ["/tmp"]
hide = ["/srv/own"]
image_cache = "100G"
cdi_spec_dirs = ["/srv/cdi"]
goci = "/usr/libexec/goci"
max_processes = 5000
max_total_processes = 9000

[[gpu]]
id = "gpu0"
model = "a100"
path = "/dev/null"
memory = "80G"
links = ["gpu1"]

[[gpu]]
id = "gpu1"
model = "a100"
path = "/dev/zero"
container_path = "/dev/gpu"

[network]
way_out = "none"
wireguard = "userspace"
range = "10.9.0.0/16"
range6 = "fd00:9::/64"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Name: "n1", Controllers: []string{"unix:///run/x.sock", "c1.lab:6817"}, TLSDir: "/etc/gleaner/tls",
		StateDir: "/var/lib/n1", Socket: "/run/n1.sock", AgentSocket: dial.AgentSocket, MinFreeBytes: 2 << 30, Init: "/usr/libexec/ginit", CPUs: 64, MemoryBytes: 512 << 20,
		Features: []string{"avx512", "infiniband"}, Address: "10.0.0.1", StepPorts: PortRange{7000, 7999}, CgroupParent: "/gleaner-dev/n1",
		Bind: []string{"/tmp"}, Hide: []string{"/srv/own"}, MaxProcesses: 5000, MaxTotalProcesses: 9000, LogLevel: slog.LevelDebug,
		GPUs: []gpu.Configured{
			{ID: "gpu0", Model: "a100", Path: "/dev/null", ContainerPath: "/dev/null", MemoryBytes: 80 << 30, Links: []string{"gpu1"}},
			{ID: "gpu1", Model: "a100", Path: "/dev/zero", ContainerPath: "/dev/gpu"},
		},
		Roots:      RootsConfig{Dir: "/var/lib/n1/roots", Program: "/usr/libexec/goci", LimitBytes: 100 << 30, SpecDirs: []string{"/srv/cdi"}},
		Checkpoint: CheckpointConfig{Store: "/var/lib/n1/images", TimeoutS: defaultSaveTimeoutS, CopyRate: defaultCopyRate},
		Network:    NetworkConfig{Closed: true, WireGuard: gangnet.Userspace, Ranges: network.Ranges{V4: netip.MustParsePrefix("10.9.0.0/16"), V6: netip.MustParsePrefix("fd00:9::/64")}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Setenv("GLEANER_CONTROLLER", "")
	t.Setenv("GLEANER_TLS_DIR", "")
	got, err := ParseConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	name, _, _ := strings.Cut(host, ".")
	executable, _ := os.Executable()
	want := Config{
		Name: name, Controllers: []string{"unix:///run/gleaner/gctld.sock"}, StateDir: DefaultStateDir, Socket: DefaultSocket, MinFreeBytes: defaultMinFree,
		Init: filepath.Join(filepath.Dir(executable), "ginit"), Address: name, StepPorts: PortRange{20000, 28191}, CgroupParent: "/gleaner/" + name,
		DetectGPUs: true, LogLevel: slog.LevelInfo,
		Roots:      RootsConfig{Dir: DefaultStateDir + "/roots", Program: findGoci(), SpecDirs: cdi.Directories},
		Checkpoint: CheckpointConfig{Store: DefaultStateDir + "/images", TimeoutS: defaultSaveTimeoutS, CopyRate: defaultCopyRate},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
	t.Setenv("GLEANER_CONTROLLER", "unix:///a,unix:///b")
	if got, err := ParseConfig(nil); err != nil || !slices.Equal(got.Controllers, []string{"unix:///a", "unix:///b"}) {
		t.Errorf("controllers %v, %v", got.Controllers, err)
	}
}

func TestConfigRefusals(t *testing.T) {
	t.Setenv("GLEANER_TLS_DIR", "")
	gpu := func(more string) string { return "[[gpu]]\nid='a'\nmodel='x'\npath='/dev/null'\n" + more }
	for text, want := range map[string]string{
		"[container]\nimage_cache = 'x'":                         "container.image_cache",
		"[container]\ngoci = 'goci'":                             "container.goci",
		"[container]\ncdi_spec_dirs = ['cdi']":                   "container.cdi_spec_dirs",
		"[network]\nwireguard = 'tun'":                           `network.wireguard "tun": write "auto"`,
		"[network]\nway_out = 'veth'":                            `network.way_out "veth": write "auto"`,
		"[network]\nrange = '10.9.0.0/25'":                       `network.range "10.9.0.0/25": a range of IPv4 addresses is needed`,
		"[network]\nrange = '10.9.0.1/16'":                       `with nothing after them`,
		"[network]\nrange6 = '10.9.0.0/16'":                      `network.range6 "10.9.0.0/16": a range of IPv6 addresses is needed`,
		"cpu = 4":                                                `:1:1: unknown key "cpu"`,
		"\n[container]\nbinds = []":                              `:3:1: unknown key "container.binds"`,
		gpu("mem='1G'"):                                          `:5:1: unknown key "gpu.mem"`,
		"name = ":                                                ":1:",
		"cpus = 'four'":                                          ":1:",
		"name = 'a b'":                                           `name "a b"`,
		"name = 'all'":                                           "is not ALL",
		"name = 'n[1-2]'":                                        "a node's name is made of",
		"name = '" + strings.Repeat("n", 300) + "'":              "at most 253",
		"step_ports = '7000-7003'":                               "at least 8 ports",
		"step_ports = '0-100'":                                   "at least 8 ports",
		"step_ports = '7000'":                                    "at least 8 ports",
		"address = 'a b'":                                        "one host name",
		"controllers = ['unix://x']":                             "absolute",
		"controllers = ['host']":                                 "HOST:PORT",
		"controllers = ['host:99999']":                           "HOST:PORT",
		"controllers = ['host:1']":                               "set tls_dir",
		"state_dir = 'relative'":                                 "state_dir",
		"state_dir = '/'":                                        "state_dir",
		"min_free_disk = '0'":                                    "min_free_disk",
		"min_free_disk = 'little'":                               "min_free_disk",
		"ginit = '/a/../b'":                                      "ginit",
		"cgroup_parent = '/top'":                                 "at least two levels",
		"cgroup_parent = 'a/b'":                                  "absolute",
		"cpus = -1":                                              "cpus -1",
		"cpus = 1000000":                                         "up to 65536",
		"memory = 'lots'":                                        "memory",
		"[container]\nmax_processes = 3":                         "at least 64",
		"[container]\nmax_total_processes = 63":                  "at least 64",
		"memory = '0'":                                           "above zero",
		"memory = '9000T'":                                       "more than the",
		"features = ['a b']":                                     "features",
		"features = ['a,b']":                                     "features",
		"log_level = 'loud'":                                     "debug, info, warn or error",
		"[container]\nbind = ['/no/such/place']":                 "make it or take it out",
		"[container]\nbind = ['/run']":                           "name what is needed in it",
		"[container]\nhide = ['x']":                              "container.hide",
		"[[gpu]]\nmodel='x'\npath='/a'":                          "gpu 1: id",
		"[[gpu]]\nid='a'\nmodel='A100'\npath='/a'":               "in lower case",
		"[[gpu]]\nid='a'\nmodel='x'\npath='gpu'":                 "gpu 1: path",
		gpu("") + gpu(""):                                        "another GPU has one of them",
		gpu("links=['b']"):                                       "not the id of another GPU",
		gpu("links=['a']"):                                       "not the id of another GPU",
		gpu("memory='-1'"):                                       "gpu 1: memory",
		gpu("container_path='/gpu'"):                             "below /dev",
		gpu("") + "[[gpu]]\nid='b'\nmodel='x'\npath='/tmp/null'": "another GPU has one of them",
		gpu("container_path='x'"):                                "container_path",
		"detect_gpus = true\n" + gpu(""):                         "exclude each other",
	} {
		_, err := ParseConfig([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

func TestLoadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gnoded.toml")
	if _, err := LoadConfig(path); !errors.Is(err, os.ErrNotExist) || !errors.Is(err, ErrConfig) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("nme = 'x'"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := LoadConfig(path)
	if err == nil || !strings.Contains(err.Error(), path+`:1:1: unknown key "nme"`) {
		t.Errorf("an unknown key: %v", err)
	}
}

func TestDetectGPUs(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "detect_gpus = false": false, "detect_gpus = true": true,
		"[[gpu]]\nid='a'\nmodel='x'\npath='/dev/null'": false,
	} {
		if got, err := ParseConfig([]byte(text)); err != nil || got.DetectGPUs != want {
			t.Errorf("%q: %v, %v", text, got.DetectGPUs, err)
		}
	}
}

// FuzzParseConfig: no text makes the parser panic, and what it accepts keeps
// the promises that the rest of the daemon builds on.
func FuzzParseConfig(f *testing.F) {
	f.Add("")
	f.Add("name = 'n1'\ncpus = 4\nmemory = '1G'")
	f.Add("[[gpu]]\nid='a'\nmodel='x'\npath='/dev/null'\nlinks=[]")
	f.Add("[container]\nbind=['/tmp']\nhide=['/srv']")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfig([]byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), ":") {
				t.Errorf("the error has no place for a file's name: %v", err)
			}
			return
		}
		for _, path := range append([]string{c.StateDir, c.Init, c.CgroupParent}, c.Bind...) {
			if path == "/" || filepath.Clean(path) != path || !filepath.IsAbs(path) {
				t.Errorf("path %q", path)
			}
		}
		if c.Name == "" || strings.ContainsAny(c.Name, " ,[]/\n") || len(c.Controllers) == 0 {
			t.Errorf("name %q, controllers %v", c.Name, c.Controllers)
		}
	})
}

func TestLockState(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "state")
	unlock, err := lockState(directory)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(directory); !errors.Is(err, ErrLocked) || !strings.Contains(fmt.Sprint(err), directory) {
		t.Errorf("a second daemon: %v", err)
	}
	unlock()
	unlock, err = lockState(directory)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestInventoryOfThisMachine(t *testing.T) {
	m, err := lookAround(Config{Name: "n1"}, gpu.FromConfiguration(nil))
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.inventory()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v", i)
	if i.Cpus == 0 || i.Cpus != i.RealCpus || i.MemoryBytes == 0 || i.MemoryBytes >= i.RealMemoryBytes ||
		i.BootId == "" || i.Arch == "" || !strings.HasPrefix(i.Os, "Linux ") || i.CgroupVersion == "" ||
		i.Sockets*i.CoresPerSocket*i.ThreadsPerCore != i.Cpus {
		t.Errorf("inventory %v", i)
	}
	m.config.CPUs = int(i.Cpus) + 7
	if i, _ := m.inventory(); !m.pretending() || i.Cpus != i.RealCpus+7 || i.CoresPerSocket != i.Cpus {
		t.Errorf("a pretending node offers %v", i)
	}
}

// Slurm's names are where they are said to be, or below the other commands; a
// directory without them is refused if it was named.
func TestSlurmDir(t *testing.T) {
	commands := t.TempDir()
	below := filepath.Join(commands, "slurm")
	for _, test := range []struct {
		named, want, refused string
	}{{"", "", ""}, {"relative", "", "container.slurm"}, {below, "", "it has no sbatch"}, {noSlurmDir, "", ""}} {
		c := Config{CommandsDir: commands, SlurmDir: test.named}
		if err := c.findSlurmDir(); c.SlurmDir != test.want && test.refused == "" || (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%q: %q, %v", test.named, c.SlurmDir, err)
		}
	}
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(below, "sbatch"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	c := Config{CommandsDir: commands}
	if err := c.findSlurmDir(); err != nil || c.SlurmDir != below {
		t.Errorf("%q, %v", c.SlurmDir, err)
	}
}
