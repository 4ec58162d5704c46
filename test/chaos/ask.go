package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// askLimit bounds each question that the test itself asks.
const askLimit = 5 * time.Second

func requestID() string { return uuid.NewString() }

// ask asks one controller after the other, in random order, until one answers.
func (c *cluster) ask(ctx context.Context, question func(context.Context, pb.ControllerClient) error) error {
	var all []error
	for _, i := range rand.Perm(len(c.controllers)) {
		limited, cancel := context.WithTimeout(ctx, askLimit)
		err := question(limited, c.controllers[i].client)
		cancel()
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// listNodes returns all nodes that have registered.
func (c *cluster) listNodes(ctx context.Context) (nodes []*pb.Node, err error) {
	err = c.ask(ctx, func(ctx context.Context, client pb.ControllerClient) error {
		nodes = nil
		stream, err := client.ListNodes(ctx, &pb.ListNodesRequest{})
		if err != nil {
			return err
		}
		return drain(stream.Recv, func(answer *pb.ListNodesResponse) {
			for _, n := range answer.Nodes {
				if n.Inventory != nil {
					nodes = append(nodes, n)
				}
			}
		})
	})
	return nodes, err
}

// listJobs returns the active jobs, or all.
func (c *cluster) listJobs(ctx context.Context, all bool) (jobs []*pb.Job, err error) {
	err = c.ask(ctx, func(ctx context.Context, client pb.ControllerClient) error {
		jobs = nil
		stream, err := client.ListJobs(ctx, &pb.ListJobsRequest{Filter: &pb.JobFilter{AllStates: all}})
		if err != nil {
			return err
		}
		return drain(stream.Recv, func(answer *pb.ListJobsResponse) { jobs = append(jobs, answer.Jobs...) })
	})
	return jobs, err
}

func (c *cluster) listPeers(ctx context.Context) (peers []*pb.Peer, err error) {
	err = c.ask(ctx, func(ctx context.Context, client pb.ControllerClient) error {
		answer, err := client.ListPeers(ctx, &pb.ListPeersRequest{})
		peers = answer.GetPeers()
		return err
	})
	return peers, err
}

// drain takes all of a stream.
func drain[A any](receive func() (A, error), take func(A)) error {
	for {
		answer, err := receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		take(answer)
	}
}

// leads asks a controller whether it leads.
func (c *cluster) leads(ctx context.Context, one *controller) bool {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := one.client.Ping(limited, &pb.PingRequest{})
	return err == nil && answer.Role == "leader"
}

// Virtual terminals that nobody uses stand in for GPUs: character devices that
// do nothing, and that anybody can open whom the device rule allows.
const (
	standInMajor      = 4
	firstStandInMinor = 10
	lastStandInMinor  = 63
)

// shownAs is under which name jobs see a stand-in GPU of a node. Each node has other
// names, in another order, and most of them belong to another GPU on the next.
func shownAs(node, gpu int) string {
	const names = gpusPerNode + 2
	return fmt.Sprintf("/dev/gpu-%d", ((names-1)*gpu+node)%names)
}

// makeStandIn makes stand-in GPU number i of the cluster.
func makeStandIn(path string, i int) error {
	minor := firstStandInMinor + i
	if minor > lastStandInMinor {
		return errors.New("there are no more stand-in GPUs: take fewer nodes")
	}
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(standInMajor, uint32(minor))))
	return errors.Join(err, unix.Chmod(path, 0o666)) // mknod's mode is cut by the umask
}
