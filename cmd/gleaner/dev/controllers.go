package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// controller is one of the controllers, named c1, c2, ….
type controller struct {
	name      string
	directory string // of the cluster
	child     *child
	config    controllerConfig
}

// label is what its files and its process are called: gctld, gctld2, ….
func (c *controller) label() string {
	return strings.Replace("gctld"+strings.TrimPrefix(c.name, "c"), "gctld1", "gctld", 1)
}

func (c *controller) path(suffix string) string {
	return filepath.Join(c.directory, c.label()+suffix)
}

func (c *controller) target() string { return "unix://" + c.path(".sock") }

// certificates is where those are that the first controller issued to it.
func (c *controller) certificates() string { return c.path(".certificates") }

// member reports whether it has belonged to the cluster before: gctld keeps its
// name in its data directory from then on.
func (c *controller) member() bool {
	_, err := os.Stat(filepath.Join(c.path(""), "name"))
	return err == nil
}

// targets names all controllers, as a list for GLEANER_CONTROLLER.
func (c *cluster) targets() []string {
	var targets []string
	for _, one := range c.controllers {
		targets = append(targets, one.target())
	}
	return targets
}

// startControllers starts those that belong to the cluster already, and has
// the others join it, by the same steps as on hosts of their own.
func (c *cluster) startControllers(ctx context.Context) (err error) {
	for i := range c.options.Controllers {
		c.controllers = append(c.controllers, &controller{name: fmt.Sprintf("c%d", i+1), directory: c.options.Directory})
	}
	surplus := controller{name: fmt.Sprintf("c%d", c.options.Controllers+1), directory: c.options.Directory}
	if surplus.member() {
		return fmt.Errorf("the cluster in %s has more controllers than %d, which would wait for the others: ask for as many with --controllers, or choose another --dir", c.options.Directory, c.options.Controllers)
	}
	if c.connection, err = dial.Open(c.targets(), ""); err != nil {
		return err
	}
	c.client = pb.NewControllerClient(c.connection)
	var joining []*controller
	for i, one := range c.controllers {
		if i > 0 && !one.member() {
			joining = append(joining, one)
			continue
		}
		if err := c.startController(one, false); err != nil {
			return err
		}
	}
	if err := c.waitForLeader(ctx); err != nil {
		return err
	}
	for _, one := range joining {
		if err := c.join(ctx, one); err != nil {
			return fmt.Errorf("controller %s: %w", one.name, err)
		}
	}
	return nil
}

func (c *cluster) waitForLeader(ctx context.Context) error {
	return c.wait(ctx, "the controller to lead", controllerDeadline, func(ctx context.Context) (bool, error) {
		// Not up yet, or not leading: a dead child ends the wait, or the deadline.
		_, err := c.client.ShowConfig(ctx, &pb.ShowConfigRequest{})
		return err == nil, nil
	})
}

// startController writes a controller's configuration and starts it.
func (c *cluster) startController(one *controller, joins bool) (err error) {
	one.config = controllerConfig{
		Name: one.name, DataDir: one.path(""), Socket: one.path(".sock"), LogLevel: c.options.LogLevel,
	}
	if one.config.PeerListen, err = c.peerAddress(one); err != nil {
		return err
	}
	if joins {
		one.config.Join, one.config.Certificates = true, one.certificates()
	}
	if err := writeTOML(one.path(".toml"), one.config); err != nil {
		return err
	}
	one.child, err = startChild(c.options.Directory, one.label(), filepath.Join(c.options.Binaries, "gctld"), "--config", one.path(".toml"))
	return err
}

// peerAddress is where the other controllers reach this one: where they did
// before, else at a port that is free. One alone has no such address.
func (c *cluster) peerAddress(one *controller) (string, error) {
	var former controllerConfig
	if text, err := os.ReadFile(one.path(".toml")); err == nil {
		if err := toml.Unmarshal(text, &former); err != nil {
			return "", fmt.Errorf("%s: %w", one.path(".toml"), err)
		}
	}
	if former.PeerListen != "" || c.options.Controllers == 1 {
		return former.PeerListen, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port for controller %s: %w", one.name, err)
	}
	return listener.Addr().String(), listener.Close()
}

// join gives a controller its certificates, starts it and adds it.
func (c *cluster) join(ctx context.Context, one *controller) error {
	if _, err := os.Stat(one.certificates()); errors.Is(err, os.ErrNotExist) {
		gctld := filepath.Join(c.options.Binaries, "gctld")
		if err := runOnce(ctx, gctld, "cert", "--config", c.controllers[0].path(".toml"), "--controller", one.name, "--out", one.certificates()); err != nil {
			return err
		}
	}
	if err := c.startController(one, true); err != nil {
		return err
	}
	request := &pb.AddPeerRequest{RequestId: requestID(), Name: one.name, Address: one.config.PeerListen}
	return c.wait(ctx, "controller "+one.name+" to have a vote", controllerDeadline, func(ctx context.Context) (bool, error) {
		if !c.answers(ctx, one) {
			return false, nil
		}
		if _, err := c.client.AddPeer(ctx, request); err != nil {
			return false, ignoreUnavailable(err)
		}
		list, err := c.client.ListPeers(ctx, &pb.ListPeersRequest{})
		for _, peer := range list.GetPeers() {
			if peer.GetName() == one.name && peer.GetVoter() {
				return true, nil
			}
		}
		return false, ignoreUnavailable(err)
	})
}

// answers reports whether a controller is up, whoever leads.
func (c *cluster) answers(ctx context.Context, one *controller) bool {
	connection, err := dial.Dial([]string{one.target()}, "")
	if err != nil {
		return false
	}
	defer connection.Close()
	_, err = pb.NewControllerClient(connection).Ping(ctx, &pb.PingRequest{})
	return err == nil
}

// ignoreUnavailable lets what may be asked again be asked again.
func ignoreUnavailable(err error) error {
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}

// stopControllers ends them together: one without the others would wait for a
// majority that never comes.
func (c *cluster) stopControllers() {
	var all sync.WaitGroup
	for _, one := range c.controllers {
		if one.child != nil {
			all.Go(func() { one.child.stop(stopDeadline) })
		}
	}
	all.Wait()
}
