package control

import (
	"bufio"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func showPartition(c *controlRun, id string) error {
	partitions, err := c.client.Partitions(c.inv.Context)
	if err != nil {
		return client.LoadError(c.inv, client.LoadPartitions, err)
	}
	nodes, err := c.client.Nodes(c.inv.Context, &pb.ListNodesRequest{})
	if err != nil {
		return client.LoadError(c.inv, client.LoadNodes, err)
	}
	if id != "" {
		partitions = slices.DeleteFunc(partitions, func(p *pb.Partition) bool { return p.Name != id })
		if len(partitions) == 0 {
			fmt.Fprintf(c.inv.Stdout, "Partition %s not found\n", id)
			return option.Exit(1)
		}
	}
	if c.json != show.JSONNone {
		records := make([]any, 0, len(partitions))
		for _, partition := range partitions {
			records = append(records, c.json.Partition(partition, nodes, c.view))
		}
		return show.WriteJSON(c.inv, c.json, "partitions", records)
	}
	out := bufio.NewWriter(c.inv.Stdout)
	for _, partition := range partitions {
		show.PartitionRecordOf(partition, nodes, c.view).Write(out, c.oneLine)
	}
	return out.Flush()
}
