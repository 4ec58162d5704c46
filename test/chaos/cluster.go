package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/chaos/host"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// Sizes and times of the cluster under test. The lease is short, so that a run
// sees many of them end.
const (
	lease         = 5 * time.Second
	leaseMargin   = 2 * time.Second
	killWait      = 3 * time.Second
	controllerMiB = 96
	nodeMiB       = 256
	gpusPerNode   = 4
	cpusPerNode   = 8
	nodeMemory    = "4G"
	startLimit    = 3 * time.Minute
	userPort      = 6817
	peerPort      = 6818
	firstNode     = 11 // host number of the first node
)

// What jobs have to share besides nodes.
const (
	license   = "solver"
	licenses  = 3
	urgentQOS = "urgent"
)

// Partitions: the same nodes, under both lease actions.
const (
	runOn  = "steady"
	fenced = "lent"
)

// cluster is the cluster under test.
type cluster struct {
	options options
	lab     *host.Lab
	out     *output

	controllers []*controller
	nodes       []*node
	journal     journal
	weather     weatherLog
	promises    promiseLog

	saves bool // nodes can save and restore jobs

	keepers    sync.WaitGroup
	stopKeeper context.CancelFunc
}

// controller is one gctld on its host.
type controller struct {
	*keeper
	name       string
	config     string // file
	socket     string
	data       string // directory
	connection *grpc.ClientConn
	client     pb.ControllerClient
}

// node is one gnoded on its host.
type node struct {
	*keeper
	name   string
	config string
	state  string // directory
	device []string
}

func newCluster(o options, out *output) (*cluster, error) {
	lab, err := host.Open(o.directory)
	if err != nil {
		return nil, err
	}
	c := &cluster{options: o, lab: lab, out: out}
	if err := c.makeFolders(); err != nil {
		return nil, err
	}
	for i := range o.controllers {
		if err := c.addController(i); err != nil {
			return nil, err
		}
	}
	for i := range o.nodes {
		if err := c.addNode(i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) path(words ...string) string {
	return filepath.Join(append([]string{c.options.directory}, words...)...)
}

func (c *cluster) program(name string) string { return filepath.Join(c.options.binaries, name) }

func (c *cluster) makeFolders() error {
	for _, name := range []string{recordFolder, homeFolder, socketFolder, tlsFolder, configFolder, deviceFolder} {
		if err := os.Mkdir(c.path(name), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(c.path(recordFolder), 0o1777); err != nil { // mkdir's mode is cut by the umask
		return err
	}
	if err := unix.Mount(c.path(recordFolder), recordPath, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the records on %s: %w", recordPath, err)
	}
	for _, u := range users {
		home := c.path(homeFolder, u.name)
		if err := errors.Join(os.Mkdir(home, 0o755), os.Chown(home, u.id, u.id)); err != nil {
			return err
		}
	}
	return nil
}

// start brings the cluster up, on a calm day.
func (c *cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stopKeeper = stop
	for i, h := range c.lab.Hosts() {
		// Clocks since boot have nothing to do with each other.
		if err := h.PowerOn(time.Duration(i+1) * 10 * time.Hour); err != nil {
			return err
		}
	}
	for _, k := range c.all() {
		c.keepers.Go(func() { k.run(keeping) })
	}
	for _, step := range []func(context.Context) error{c.startControllers, c.addOwner, c.applyPolicy, c.addUrgent, c.startNodes} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// all are the keepers of all daemons.
func (c *cluster) all() []*keeper {
	var all []*keeper
	for _, one := range c.controllers {
		all = append(all, one.keeper)
	}
	for _, one := range c.nodes {
		all = append(all, one.keeper)
	}
	return all
}

// until asks done every so often until it says yes or ctx ends.
func until(ctx context.Context, what string, done func() bool) error {
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// applyPolicy sets short leases and two partitions over the same nodes. What is
// over is remembered until the end.
func (c *cluster) applyPolicy(ctx context.Context) error {
	partition := func(name, action string) *pb.Partition {
		return &pb.Partition{
			Name: name, Nodes: "ALL", IsDefault: name == runOn, Up: true, MaxTimeS: 3600, PriorityTier: 1,
			DefaultMemoryPerCpuBytes: 32 << 20, LeaseAction: action,
		}
	}
	var last error
	err := until(ctx, "a controller to take the policy", func() bool {
		last = c.ask(ctx, func(ctx context.Context, client pb.ControllerClient) error {
			config, err := client.ShowConfig(ctx, &pb.ShowConfigRequest{})
			if err != nil {
				return err
			}
			policy := config.Policy
			policy.KillWaitS = uint32(killWait / time.Second)
			policy.MinJobAgeS = 24 * 3600
			policy.LeaseS, policy.LeaseMarginS = uint32(lease/time.Second), uint32(leaseMargin/time.Second)
			policy.Partitions = []*pb.Partition{partition(runOn, "run-on"), partition(fenced, "fence")}
			policy.Owners = c.owners()
			policy.Licenses = []*pb.License{{Name: license, Count: licenses}}
			policy.Preempt = &pb.PreemptPolicy{Type: "qos", Mode: "requeue", ExemptTimeS: 1}
			_, err = client.ApplyPolicy(ctx, &pb.ApplyPolicyRequest{RequestId: requestID(), Policy: policy})
			return err
		})
		return last == nil
	})
	if err != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// addUrgent makes the QOS for which jobs of the default one make room.
func (c *cluster) addUrgent(ctx context.Context) error {
	return c.addRecord(ctx, "qos", urgentQOS, "preempt=normal")
}

// addRecord adds a record of the accounting.
func (c *cluster) addRecord(ctx context.Context, words ...string) error {
	said := ""
	err := until(ctx, strings.Join(words, " "), func() bool {
		var err error
		said, err = c.tool(ctx, "gacctmgr", append([]string{"-iQ", "add"}, words...)...)
		return err == nil || strings.Contains(said, "exists already")
	})
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// startNodes starts all and waits until they are there.
func (c *cluster) startNodes(ctx context.Context) error {
	for _, n := range c.nodes {
		n.want(true)
	}
	return until(ctx, "the nodes to register", func() bool {
		nodes, err := c.listNodes(ctx)
		return err == nil && len(nodes) == len(c.nodes)
	})
}

// connect makes the test's own connection to a controller.
func (c *controller) connect() (err error) {
	if c.connection, err = dial.Dial([]string{"unix://" + c.socket}, ""); err == nil {
		c.client = pb.NewControllerClient(c.connection)
	}
	return err
}
