package setup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clusterfile"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// until asks again and again until the answer is yes, or the time is over. seen is what
// keeps the answer from being yes.
func until(ctx context.Context, limit time.Duration, ask func() (yes bool, seen error)) error {
	late := time.After(limit)
	for {
		yes, seen := ask()
		if yes {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("not in %v: %w", limit, seen)
		case <-time.After(pollEvery):
		}
	}
}

func awaitController(inv *option.Invocation) error {
	return asking(inv, func(c *client.Client) error {
		return until(inv.Context, readyLimit, func() (bool, error) {
			_, err := client.AskOne(inv.Context, c, c.Ping, &pb.PingRequest{})
			if err != nil {
				return false, fmt.Errorf("%w\njournalctl -u gctld says why", err)
			}
			return true, nil
		})
	})
}

func asking(inv *option.Invocation, do func(*client.Client) error) error {
	c, err := client.Connect(inv)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// applyPolicy puts the host's policy in force where that of a new cluster is.
func (h host) applyPolicy(inv *option.Invocation) error {
	path := filepath.Join(h.configs, "cluster.toml")
	text, err := console.ReadFile(inv.Context, path, clusterfile.MaxBytes)
	if err != nil {
		return err
	}
	wanted, err := clusterfile.ParseWith(text, console.ReadBeside(inv.Context, path, clusterfile.MaxBytes))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	first, err := clusterfile.Parse([]byte(untouched))
	if err != nil {
		return err
	}
	return asking(inv, func(c *client.Client) error {
		apply := func(policy *pb.Policy, dry bool) (*pb.ApplyPolicyResponse, error) {
			request := &pb.ApplyPolicyRequest{RequestId: uuid.NewString(), Policy: policy, DryRun: dry}
			answer, err := client.Call(inv.Context, c, c.ApplyPolicy, request)
			if err != nil {
				return nil, errors.New(client.Plain(err))
			}
			return answer, nil
		}
		differs, err := apply(first, true)
		if err != nil || len(differs.GetChanges()) > 0 {
			return err // that of an administrator stays
		}
		_, err = apply(wanted, false)
		return err
	})
}

// awaitNode waits for a node that takes jobs, and says what keeps it from that.
func awaitNode(inv *option.Invocation) error {
	return asking(inv, func(c *client.Client) error {
		return until(inv.Context, readyLimit, func() (bool, error) {
			nodes, err := c.Nodes(inv.Context, &pb.ListNodesRequest{})
			if err != nil {
				return false, err
			}
			seen := errors.New("no node has registered; journalctl -u gnoded says why")
			for _, node := range nodes {
				if why := unready(node); why != nil {
					seen = why
					continue
				}
				return true, nil
			}
			return false, seen
		})
	})
}

func unready(node *pb.Node) error {
	takes := node.GetState() == pb.NodeState_NODE_STATE_IDLE || node.GetState() == pb.NodeState_NODE_STATE_MIXED || node.GetState() == pb.NodeState_NODE_STATE_ALLOCATED
	if takes && !node.GetDrain() && !node.GetNotResponding() {
		return nil
	}
	return fmt.Errorf("node %s takes no jobs: %s\nsudo gdoctor says what is wrong on this host", format.Printable(node.GetName()), format.Printable(node.GetReason()))
}
