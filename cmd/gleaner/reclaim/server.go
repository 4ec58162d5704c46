package reclaim

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/local"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// server takes nodes back: a controller, or the node on which the command is typed.
type server interface {
	Reclaim(ctx context.Context, request *pb.ReclaimNodesRequest) (*pb.ReclaimNodesResponse, error)
	Nodes(ctx context.Context, list string) ([]*pb.Node, error)
	Close()
}

func connect(inv *option.Invocation, names string) (server, error) {
	if inv.Given("local") {
		return local.Connect(inv, names)
	}
	controller, err := client.Connect(inv)
	if err != nil {
		return nil, err
	}
	return controllers{controller}, nil
}

type controllers struct{ *client.Client }

func (c controllers) Reclaim(ctx context.Context, request *pb.ReclaimNodesRequest) (*pb.ReclaimNodesResponse, error) {
	return client.Call(ctx, c.Client, c.Client.ReclaimNodes, request)
}

func (c controllers) Nodes(ctx context.Context, list string) ([]*pb.Node, error) {
	return c.Client.Nodes(ctx, &pb.ListNodesRequest{Names: list})
}

// localLookEvery is how often the node itself is asked: it is near, and has nobody else
// to answer.
const localLookEvery = 10 * time.Millisecond

func (r *run) lookEvery() time.Duration {
	if r.inv.Given("local") {
		return localLookEvery
	}
	return lookEvery
}

// typed is a command for this node: "grelease --local", with its name where that was
// needed.
func (r *run) typed(program, option string) string {
	text := program + " --local"
	if r.request.Names != "" {
		text += " " + r.request.Names
	}
	if option != "" {
		text += " " + option
	}
	return text
}
