package control

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func showNode(c *controlRun, id string) error {
	nodes, err := c.client.Nodes(c.inv.Context, &pb.ListNodesRequest{})
	if err != nil {
		return client.LoadError(c.inv, client.LoadNodes, err)
	}
	show.SortNodes(nodes)
	var unknown []string
	if id != "" {
		wanted, err := spec.ParseHostList(id)
		if err != nil {
			return c.inv.Fail("%w", err)
		}
		if nodes, unknown = pickNodes(nodes, wanted); len(unknown) > 0 && c.json != show.JSONNone {
			return c.inv.Fail("Node %s not found", strings.Join(unknown, ","))
		}
	}
	if c.json != show.JSONNone {
		records := make([]*show.NodeRecord, 0, len(nodes))
		for _, node := range nodes {
			records = append(records, c.json.Node(node, c.view))
		}
		return show.WriteJSON(c.inv, c.json, "nodes", records)
	}
	out := bufio.NewWriter(c.inv.Stdout)
	for _, node := range nodes {
		show.NodeRecordOf(node, c.view, c.details).Write(out, c.oneLine)
	}
	for _, name := range unknown {
		fmt.Fprintf(out, "Node %s not found\n", name)
	}
	if len(nodes) == 0 && id == "" {
		fmt.Fprintln(out, "No nodes in the system")
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(unknown) > 0 {
		return option.Exit(1)
	}
	return nil
}

// pickNodes finds nodes by name, in the order wanted.
func pickNodes(nodes []*pb.Node, wanted []string) (found []*pb.Node, unknown []string) {
	byName := make(map[string]*pb.Node, len(nodes))
	for _, node := range nodes {
		byName[node.Name] = node
	}
	for _, name := range wanted {
		if node, known := byName[name]; known {
			found = append(found, node)
		} else {
			unknown = append(unknown, name)
		}
	}
	return found, unknown
}
