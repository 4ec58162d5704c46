package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// cluster is what runs: controllers and nodes.
type cluster struct {
	options     clusterOptions
	out         io.Writer
	memoryMB    uint64
	standIns    standIns
	controllers []*controller
	nodes       []*child
	connection  *dial.Controllers
	client      pb.ControllerClient
}

func (c *cluster) start(ctx context.Context) (err error) {
	if c.memoryMB, err = memoryPerNodeMB(c.options.Nodes); err != nil {
		return err
	}
	if err := c.startControllers(ctx); err != nil {
		return err
	}
	if err := c.applyPolicy(ctx); err != nil {
		return fmt.Errorf("set the policy: %w", err)
	}
	if err := c.startNodes(ctx); err != nil {
		return err
	}
	return c.writeEnvironment()
}

// applyPolicy gives the cluster one partition of all nodes, in which a job that
// names no memory gets a CPU's share of it.
func (c *cluster) applyPolicy(ctx context.Context) error {
	var config *pb.ShowConfigResponse
	err := c.wait(ctx, "a controller to tell the policy", controllerDeadline, func(ctx context.Context) (_ bool, err error) {
		config, err = c.client.ShowConfig(ctx, &pb.ShowConfigRequest{})
		return err == nil, ignoreUnavailable(err)
	})
	if err != nil {
		return err
	}
	policy := config.Policy
	policy.KillWaitS = 5
	policy.Partitions = []*pb.Partition{{
		Name:                     "main",
		Nodes:                    "ALL",
		IsDefault:                true,
		Up:                       true,
		MaxTimeS:                 1<<32 - 1,
		PriorityTier:             1,
		DefaultMemoryPerCpuBytes: c.memoryMB / uint64(c.options.CPUsPerNode) * mebibyte,
		AllowRootJobs:            true,
		LeaseAction:              "run-on",
	}}
	request := &pb.ApplyPolicyRequest{RequestId: requestID(), Policy: policy}
	return c.wait(ctx, "a controller to set the policy", controllerDeadline, func(ctx context.Context) (bool, error) {
		_, err := c.client.ApplyPolicy(ctx, request)
		return err == nil, ignoreUnavailable(err)
	})
}

func (c *cluster) startNodes(ctx context.Context) error {
	for i := range c.options.Nodes {
		if err := c.writeNode(i); err != nil {
			return err
		}
		name := c.nodeName(i)
		program := filepath.Join(c.options.Binaries, "gnoded")
		node, err := startChild(c.options.Directory, name, program, "--config", c.nodeConfigFile(name))
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, node)
	}
	return c.wait(ctx, "the nodes to register", nodesDeadline, func(ctx context.Context) (bool, error) {
		up, err := c.respondingNodes(ctx)
		return up == c.options.Nodes, ignoreUnavailable(err)
	})
}

// respondingNodes counts this cluster's nodes that hold their lease.
func (c *cluster) respondingNodes(ctx context.Context) (int, error) {
	stream, err := c.client.ListNodes(ctx, &pb.ListNodesRequest{})
	if err != nil {
		return 0, err
	}
	up := 0
	for {
		answer, err := stream.Recv()
		if err != nil {
			return up, ignoreEnd(err)
		}
		for _, node := range answer.Nodes {
			if !node.NotResponding && node.Inventory != nil && node.State >= pb.NodeState_NODE_STATE_IDLE {
				up++
			}
		}
	}
}

// ignoreEnd turns the end of a stream into no error.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// wait asks done every few milliseconds until it says yes, it fails, a child
// dies or the deadline passes.
func (c *cluster) wait(ctx context.Context, what string, deadline time.Duration, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, fmt.Errorf("waited %v for %s; see the logs in %s", deadline, what, c.options.Directory))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := done(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if yes || err != nil {
			return err
		}
		if dead := c.deadChild(); dead != nil {
			return dead.died()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (c *cluster) children() []*child {
	all := append([]*child{}, c.nodes...)
	for _, one := range c.controllers {
		if one.child != nil {
			all = append(all, one.child)
		}
	}
	return all
}

func (c *cluster) deadChild() *child {
	for _, one := range c.children() {
		select {
		case <-one.ended:
			return one
		default:
		}
	}
	return nil
}

// watch returns nil when ctx ends. A daemon that dies is started again, as a
// service manager would, so that killing one shows what the others and its
// jobs do; one that keeps dying ends the cluster.
func (c *cluster) watch(ctx context.Context) error {
	tick := time.NewTicker(restartDelay)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		dead := c.deadChild()
		if dead == nil {
			continue
		}
		if dead.short >= maxShortLives {
			return dead.died()
		}
		fmt.Fprintf(c.out, "%s ended (%v); starting it again\n", dead.name, dead.result)
		if err := dead.start(); err != nil {
			return err
		}
	}
}

// stop ends everything, in the order that loses nothing: jobs, nodes, what
// the nodes left, the controllers.
func (c *cluster) stop() error {
	var all []error
	if c.client != nil {
		c.endJobs()
	}
	for _, node := range c.nodes {
		node.stop(stopDeadline)
	}
	for i := range c.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), endJobsDeadline)
		all = append(all, runOnce(ctx, filepath.Join(c.options.Binaries, "gnoded"), "stop-jobs", "--config", c.nodeConfigFile(c.nodeName(i))))
		cancel()
	}
	if c.connection != nil {
		c.connection.Close()
	}
	c.stopControllers()
	all = append(all, c.standIns.remove())
	if err := os.Remove(c.environmentFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		all = append(all, err)
	}
	return errors.Join(all...)
}
