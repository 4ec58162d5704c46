package dev

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"
)

// controllerConfig is what gctld reads.
type controllerConfig struct {
	Name     string `toml:"name"`
	DataDir  string `toml:"data_dir"`
	Socket   string `toml:"socket"`
	LogLevel string `toml:"log_level,omitempty"`

	PeerListen   string `toml:"peer_listen,omitempty"`
	Join         bool   `toml:"join,omitempty"`
	Certificates string `toml:"certificates,omitempty"`
}

// nodeConfig is what gnoded reads.
type nodeConfig struct {
	Name         string            `toml:"name"`
	Controllers  []string          `toml:"controllers"`
	StateDir     string            `toml:"state_dir"`
	Socket       string            `toml:"socket"`
	Ginit        string            `toml:"ginit"`
	CPUs         int               `toml:"cpus"`
	Memory       string            `toml:"memory"`
	Address      string            `toml:"address"`
	StepPorts    string            `toml:"step_ports"`
	CgroupParent string            `toml:"cgroup_parent"`
	LogLevel     string            `toml:"log_level,omitempty"`
	DetectGPUs   bool              `toml:"detect_gpus"`
	Container    containerConfig   `toml:"container"`
	Checkpoint   *checkpointConfig `toml:"checkpoint,omitempty"` // nil = the daemon's own settings
	GPUs         []nodeGPUConfig   `toml:"gpu,omitempty"`
}

type containerConfig struct {
	Bind     []string `toml:"bind"`
	Commands string   `toml:"commands"`
}

type checkpointConfig struct {
	Direct string `toml:"direct"`
}

type nodeGPUConfig struct {
	ID     string `toml:"id"`
	Model  string `toml:"model"`
	Path   string `toml:"path"`
	Memory string `toml:"memory"`
}

// writeTOML writes value to path.
func writeTOML(path string, value any) error {
	text, err := toml.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, text, 0o644)
}

const mebibyte = 1 << 20

// memoryPerNodeMB shares out what this machine has, keeping a fifth of it for
// the machine itself.
func memoryPerNodeMB(nodes int) (uint64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	total := uint64(info.Totalram) * uint64(info.Unit) / mebibyte
	share := total * 4 / 5 / uint64(nodes)
	if share < 64 {
		return 0, fmt.Errorf("%d nodes share %d MB of memory: ask for fewer nodes", nodes, total)
	}
	return share, nil
}

func (c *cluster) nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

func (c *cluster) nodeDirectory(name string) string {
	return filepath.Join(c.options.Directory, "nodes", name)
}

// nodeSocket is where a node serves its owner: --local finds it there.
func (c *cluster) nodeSocket(name string) string {
	return filepath.Join(c.nodeDirectory(name), "gnoded.sock")
}

func (c *cluster) nodeConfigFile(name string) string {
	return filepath.Join(c.nodeDirectory(name), "gnoded.toml")
}

// cgroupParent is the same at each start in a directory, so that a start after
// a kill finds, and at its end removes, what the killed one left.
func (c *cluster) cgroupParent() string {
	return fmt.Sprintf("/gleaner-dev-%08x", crc32.ChecksumIEEE([]byte(c.options.Directory)))
}

// writeNode writes the configuration of node number i and makes its stand-in
// GPUs. On a machine with an NVIDIA driver the first node has the real GPUs.
func (c *cluster) writeNode(i int) error {
	name := c.nodeName(i)
	directory := c.nodeDirectory(name)
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	config := nodeConfig{
		Name:         name,
		Controllers:  c.targets(),
		StateDir:     directory,
		Socket:       c.nodeSocket(name),
		Ginit:        filepath.Join(c.options.Binaries, "ginit"),
		CPUs:         c.options.CPUsPerNode,
		Memory:       fmt.Sprintf("%dM", c.memoryMB),
		Address:      "127.0.0.1",
		StepPorts:    c.stepPorts(i),
		CgroupParent: c.cgroupParent() + "/" + name,
		LogLevel:     c.options.LogLevel,
		DetectGPUs:   i == 0 && haveNVIDIA(),
		// The commands must be there inside jobs too, even when they were
		// built below /tmp, of which each job has its own.
		Container: containerConfig{Bind: []string{c.options.Binaries}, Commands: c.options.Binaries},
	}
	if c.options.Direct {
		config.Checkpoint = &checkpointConfig{Direct: "127.0.0.1:0"}
	}
	for gpu, file := range c.standInNames(i) {
		path := filepath.Join(directory, "dev", file)
		if err := c.standIns.make(path); err != nil {
			return err
		}
		config.GPUs = append(config.GPUs, nodeGPUConfig{
			ID:     fmt.Sprintf("standin-%s-%d", name, gpu),
			Model:  "standin",
			Path:   path,
			Memory: "16G",
		})
	}
	return writeTOML(c.nodeConfigFile(name), config)
}

// stepPorts are a node's part of the ports below those that the kernel gives to
// connections: all nodes have one network.
func (c *cluster) stepPorts(node int) string {
	const first, last = 20000, 32767
	each := (last - first + 1) / max(c.options.Nodes, 1)
	if each < 8 {
		return "none"
	}
	return fmt.Sprintf("%d-%d", first+node*each, first+(node+1)*each-1)
}

// standInNames are the device files of a node's stand-in GPUs, in order.
func (c *cluster) standInNames(node int) []string {
	names := make([]string, c.standInsOf(node))
	for gpu := range names {
		names[gpu] = fmt.Sprintf("gpu%d", gpu)
		switch {
		case !c.options.UnlikeGPUs:
		case node%3 == 1: // the other way round, and from 1
			names[gpu] = fmt.Sprintf("gpu%d", len(names)-gpu)
		case node%3 == 2 && gpu%2 == 0: // others before those that have the same name elsewhere
			names[gpu] = fmt.Sprintf("accel%d", node+gpu)
		}
	}
	return names
}

func (c *cluster) standInsOf(node int) int {
	if node == 0 && haveNVIDIA() {
		return 0
	}
	return c.options.GPUsPerNode
}
