package control

import (
	"strings"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// controlDelete is "delete NodeName=LIST", whose machines are gone for good, so that
// their records go too, and "delete ReservationName=NAME".
func controlDelete(c *controlRun, words []string) error {
	if len(words) == 0 {
		return c.tooFew("delete")
	}
	settings, err := c.updateSettings(words)
	if err != nil {
		return err
	}
	if len(settings) > 1 {
		return c.tooMany("delete")
	}
	switch entity := settings[0]; entity.key {
	case "reservation", "reservationname":
		return c.deleteReservation(entity.value)
	case "node", "nodename", "nodes":
		if _, err := spec.ParseHostList(entity.value); err != nil {
			return c.aborted("Invalid input: %s=%s\n%v", entity.key, entity.value, err)
		}
		request := &pb.UpdateNodeRequest{RequestId: uuid.NewString(), Names: entity.value, Action: pb.NodeAction_NODE_ACTION_DELETE}
		if _, err := client.Call(c.inv.Context, c.client, c.client.UpdateNode, request); err != nil {
			return client.LoadError(c.inv, "slurm_delete_node error", err)
		}
		return nil
	case "partition", "partitionname":
		return &option.LaterError{Name: "delete " + entity.key, Remedy: "take it out of cluster.toml, and use gcontrol apply -f cluster.toml"}
	default:
		return c.aborted("Invalid input: %s\nOnly nodes and reservations are deleted: NodeName=LIST, ReservationName=NAME", strings.TrimSpace(entity.key))
	}
}
