package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/gleaner-hpc/gleaner/test/chaos/host"
)

// controllerConfig is what gctld reads.
type controllerConfig struct {
	Name         string `toml:"name"`
	DataDir      string `toml:"data_dir"`
	Socket       string `toml:"socket"`
	Listen       string `toml:"listen"`
	PeerListen   string `toml:"peer_listen,omitempty"`
	Join         bool   `toml:"join,omitempty"`
	Certificates string `toml:"certificates,omitempty"`
	LogLevel     string `toml:"log_level"`
	// ElectionTimeout is longer in stories, which take their steps one by one
	// and need a leader that stays, also on a busy machine.
	ElectionTimeout string `toml:"election_timeout,omitempty"`
}

// storyElection is a controller's patience in stories.
const storyElection = "4s"

// nodeConfig is what gnoded reads.
type nodeConfig struct {
	Name         string          `toml:"name"`
	Controllers  []string        `toml:"controllers"`
	TLSDir       string          `toml:"tls_dir"`
	StateDir     string          `toml:"state_dir"`
	MinFreeDisk  string          `toml:"min_free_disk"`
	Ginit        string          `toml:"ginit"`
	CPUs         int             `toml:"cpus"`
	Memory       string          `toml:"memory"`
	Address      string          `toml:"address"`
	CgroupParent string          `toml:"cgroup_parent"`
	DetectGPUs   bool            `toml:"detect_gpus"`
	Container    containerConfig `toml:"container"`
	GPUs         []gpuConfig     `toml:"gpu"`
}

type containerConfig struct {
	Bind []string `toml:"bind"`
}

type gpuConfig struct {
	ID            string `toml:"id"`
	Model         string `toml:"model"`
	Path          string `toml:"path"`
	ContainerPath string `toml:"container_path"`
	Memory        string `toml:"memory"`
}

func writeTOML(path string, value any) error {
	text, err := toml.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func (c *cluster) addController(i int) error {
	name := fmt.Sprintf("c%d", i+1)
	h, err := c.lab.NewHost(name, i+1, controllerMiB)
	if err != nil {
		return err
	}
	one := &controller{
		name: name, config: c.path(configFolder, name+".toml"), socket: c.path(socketFolder, name+".sock"),
		data: filepath.Join(h.Disk.Path, "data"),
	}
	one.keeper = newKeeper(h, c.path(logFolder, name+".log"), c.program("gctld"), "--config", one.config)
	c.controllers = append(c.controllers, one)
	return one.connect()
}

// configure writes a controller's configuration. The first begins the cluster,
// unless it has been wiped; the others join it, with certificates issued there
// unless they have kept theirs.
func (c *cluster) configure(one *controller, join bool) error {
	config := controllerConfig{
		Name: one.name, DataDir: one.data, Socket: one.socket, LogLevel: "info",
		Listen: fmt.Sprintf("%s:%d", one.host.IP(), userPort),
	}
	if len(c.controllers) > 1 {
		config.PeerListen = one.peerAddress()
	}
	if c.options.story != "" {
		config.ElectionTimeout = storyElection
	}
	if join {
		config.Join = true
		if _, err := os.Stat(filepath.Join(one.data, "pki")); err != nil {
			config.Certificates = c.path(tlsFolder, one.name)
		}
	}
	return writeTOML(one.config, config)
}

func (c *controller) peerAddress() string { return fmt.Sprintf("%s:%d", c.host.IP(), peerPort) }

// startControllers starts the first, issues all certificates there, and lets
// the others join.
func (c *cluster) startControllers(ctx context.Context) error {
	first := c.controllers[0]
	if err := c.configure(first, false); err != nil {
		return err
	}
	first.want(true)
	if err := until(ctx, "the first controller to lead", func() bool { return c.leads(ctx, first) }); err != nil {
		return err
	}
	if err := c.issueCertificates(ctx); err != nil {
		return err
	}
	for _, one := range c.controllers[1:] {
		if err := c.configure(one, true); err != nil {
			return err
		}
		one.want(true)
		if err := c.addPeer(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) issueCertificates(ctx context.Context) error {
	holders := map[string]string{}
	for _, one := range c.controllers {
		holders[one.name] = "--controller"
	}
	for _, one := range c.nodes {
		holders[one.name] = "--node"
	}
	for _, u := range users {
		holders[u.name] = "--user"
	}
	for name, flag := range holders {
		if out, err := c.tool(ctx, "gctld", "cert", "--config", c.controllers[0].config, flag, name, "--out", c.path(tlsFolder, name)); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	for _, u := range users {
		directory := c.path(tlsFolder, u.name)
		for _, name := range []string{"", "ca.pem", "cert.pem", "key.pem"} {
			if err := os.Chown(filepath.Join(directory, name), u.id, u.id); err != nil {
				return err
			}
		}
	}
	return nil
}

// tool runs one of Gleaner's programs as an administrator would, on no host.
func (c *cluster) tool(ctx context.Context, name string, words ...string) (string, error) {
	command := exec.CommandContext(ctx, c.program(name), words...)
	command.Env = []string{"PATH=" + c.options.binaries + ":/usr/sbin:/usr/bin:/sbin:/bin", "GLEANER_CONTROLLER=" + strings.Join(c.sockets(), ",")}
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w", name, strings.Join(words, " "), err)
	}
	return strings.TrimSpace(string(out)), err
}

func (c *cluster) sockets() []string {
	var all []string
	for _, one := range c.controllers {
		all = append(all, "unix://"+one.socket)
	}
	return all
}

// addPeer makes a controller that waits for it a member, and waits until it
// has a vote.
func (c *cluster) addPeer(ctx context.Context, one *controller) error {
	var said string
	err := until(ctx, one.name+" to join", func() bool {
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		out, err := c.tool(limited, "gcontrol", "peer", "add", one.name, one.peerAddress())
		said = out
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return until(ctx, one.name+" to vote", func() bool {
		peers, err := c.listPeers(ctx)
		if err != nil {
			return false
		}
		for _, peer := range peers {
			if peer.Name == one.name {
				return peer.Voter
			}
		}
		return false
	})
}

func (c *cluster) addNode(i int) error {
	name := fmt.Sprintf("n%d", i+1)
	h, err := c.lab.NewHost(name, firstNode+i, nodeMiB)
	if err != nil {
		return err
	}
	one := &node{name: name, config: c.path(configFolder, name+".toml"), state: filepath.Join(h.Disk.Path, "state")}
	one.keeper = newKeeper(h, c.path(logFolder, name+".log"), c.program("gnoded"), "--config", one.config)
	c.nodes = append(c.nodes, one)
	config := nodeConfig{
		Name: name, TLSDir: c.path(tlsFolder, name), StateDir: one.state, MinFreeDisk: "16M",
		Ginit: c.program("ginit"), CPUs: cpusPerNode, Memory: nodeMemory, Address: h.IP().String(),
		CgroupParent: host.Group(c.options.directory) + "/" + name,
		Container:    containerConfig{Bind: []string{c.options.binaries, recordPath, c.path(homeFolder)}},
	}
	for _, controller := range c.controllers {
		config.Controllers = append(config.Controllers, fmt.Sprintf("%s:%d", controller.host.IP(), userPort))
	}
	for gpu := range gpusPerNode {
		device := fmt.Sprintf("gpu-%s-%d", name, gpu)
		path := c.path(deviceFolder, device)
		if err := makeStandIn(path, i*gpusPerNode+gpu); err != nil {
			return err
		}
		one.device = append(one.device, device)
		config.GPUs = append(config.GPUs, gpuConfig{ID: device, Model: "standin", Path: path, ContainerPath: shownAs(i, gpu), Memory: "1G"})
	}
	return writeTOML(one.config, config)
}
