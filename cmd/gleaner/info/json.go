package info

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// WriteJSON prints the lines of the default table as "sinfo", and the nodes
// and partitions in full.
func (run *infoRun) writeJSON(partitions []*pb.Partition, nodes, all []*pb.Node, view *show.View) error {
	layout, err := show.NodeTable.ParseShort(infoFormat)
	if err != nil {
		return err
	}
	stream := show.NewJSONStream(run.inv.Stdout, "sinfo", run.json)
	grouped := &infoRun{inv: run.inv, choice: run.choice, layout: layout, less: run.less}
	for _, row := range grouped.rows(partitions, nodes, view) {
		if err := stream.Add(show.LineRecordOf(run.json, row, all)); err != nil {
			return err
		}
	}
	if err := stream.Next("nodes"); err != nil {
		return err
	}
	for _, node := range nodes {
		if err := stream.Add(run.json.Node(node, view)); err != nil {
			return err
		}
	}
	if err := stream.Next("partitions"); err != nil {
		return err
	}
	for _, partition := range partitions {
		if err := stream.Add(run.json.Partition(partition, all, view)); err != nil {
			return err
		}
	}
	return stream.End(run.inv)
}
