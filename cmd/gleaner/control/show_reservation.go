package control

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// showReservation is "show reservation [NAME]".
func showReservation(c *controlRun, name string) error {
	listed, err := client.AskOne(c.inv.Context, c.client, c.client.ListReservations, &pb.ListReservationsRequest{})
	if err != nil {
		return client.LoadError(c.inv, client.LoadReservations, err)
	}
	reservations := listed.GetReservations()
	if name != "" {
		reservations = slices.DeleteFunc(reservations, func(r *pb.Reservation) bool { return r.Name != name })
	}
	if c.json != show.JSONNone {
		records := make([]*show.ReservationJSON, 0, len(reservations))
		for _, r := range reservations {
			records = append(records, c.json.Reservation(r))
		}
		return show.WriteJSON(c.inv, c.json, "reservations", records)
	}
	if len(reservations) == 0 && name != "" {
		fmt.Fprintf(c.inv.Stdout, "Reservation %s not found\n", format.Printable(name))
		return option.Exit(1)
	}
	return show.WriteReservations(c.inv.Stdout, reservations, c.view, c.oneLine)
}
