package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file makes, changes and deletes reservations, in the keys of scontrol(1),
// "RESERVATIONS - SPECIFICATIONS FOR CREATE, UPDATE, AND DELETE COMMANDS".

// namesReservation reports whether the first word of a command is about a reservation.
func namesReservation(words []string) bool {
	key, _, _ := strings.Cut(strings.ToLower(words[0]), "=")
	return len(key) >= len("res") && (strings.HasPrefix("reservationname", key) || strings.HasPrefix("reservations", key))
}

// controlCreate is "create reservation [ReservationName=NAME] KEY=VALUE…".
func controlCreate(c *controlRun, words []string) error {
	if len(words) == 0 {
		return c.tooFew("create")
	}
	if !namesReservation(words) {
		return &option.LaterError{Name: "create " + strings.ToLower(words[0]), Remedy: "partitions are made by gcontrol apply -f cluster.toml; nodes appear when they register"}
	}
	settings, err := c.reservationSettings(words)
	if err != nil {
		return err
	}
	edit := &reservationEdit{r: &pb.Reservation{}}
	for _, s := range settings {
		if err := edit.set(c, s); err != nil {
			return err
		}
	}
	switch {
	case edit.r.StartMs == 0:
		return c.aborted("Error creating the reservation: no StartTime: give StartTime=now, or a time such as 2030-01-20T12:00")
	case !edit.ends && edit.durationS == 0:
		return c.aborted("Error creating the reservation: no end: give Duration=1:00:00, or an EndTime")
	}
	if !edit.ends {
		edit.r.EndMs = edit.r.StartMs + int64(edit.durationS)*1000
	}
	answer, err := client.Call(c.inv.Context, c.client, c.client.CreateReservation, &pb.CreateReservationRequest{
		RequestId: uuid.NewString(), Reservation: edit.r, NodeCount: edit.nodeCount, GpuCount: edit.gpuCount, GpuModel: edit.gpuModel, Features: edit.features,
	})
	if err != nil {
		return client.LoadError(c.inv, "Error creating the reservation", err)
	}
	if !c.inv.Given("quiet") {
		fmt.Fprintf(c.inv.Stdout, "Reservation created: %s\n", format.Printable(answer.GetReservation().GetName()))
	}
	return nil
}

// updateReservation is "update ReservationName=NAME KEY=VALUE…"; a + or - before the = adds
// to a list, or takes away from it.
func (c *controlRun) updateReservation(words []string) error {
	settings, err := c.reservationSettings(words)
	if err != nil {
		return err
	}
	edit := &reservationEdit{r: &pb.Reservation{}}
	for _, s := range settings {
		if s.key == "reservationname" {
			if edit.r, err = c.reservation(s.value); err != nil {
				return err
			}
		}
	}
	if edit.r.GetName() == "" {
		return c.aborted("No ReservationName: give the name of the reservation to change")
	}
	former := edit.r.EndMs - edit.r.StartMs
	for _, s := range settings {
		if s.key == "reservationname" {
			continue
		}
		if err := edit.set(c, s); err != nil {
			return err
		}
	}
	if edit.nodeCount+edit.gpuCount > 0 || edit.features != "" {
		return c.aborted("Error updating the reservation: its nodes are not chosen again: give Nodes=LIST, Nodes+=LIST or Nodes-=LIST")
	}
	switch {
	case edit.ends:
	case edit.durationS != 0:
		edit.r.EndMs = edit.r.StartMs + int64(edit.durationS)*1000
		edit.fields = append(edit.fields, "end_ms")
	case edit.begins:
		edit.r.EndMs = edit.r.StartMs + former
		edit.fields = append(edit.fields, "end_ms")
	}
	_, err = client.Call(c.inv.Context, c.client, c.client.UpdateReservation, &pb.UpdateReservationRequest{RequestId: uuid.NewString(), Reservation: edit.r, Fields: edit.fields})
	if err != nil {
		return client.LoadError(c.inv, "Error updating the reservation", err)
	}
	if !c.inv.Given("quiet") {
		fmt.Fprintln(c.inv.Stdout, "Reservation updated.")
	}
	return nil
}

// deleteReservation is "delete ReservationName=NAME".
func (c *controlRun) deleteReservation(name string) error {
	if _, err := client.Call(c.inv.Context, c.client, c.client.DeleteReservation, &pb.DeleteReservationRequest{RequestId: uuid.NewString(), Name: name}); err != nil {
		return client.LoadError(c.inv, "slurm_delete_reservation error", err)
	}
	return nil
}

// reservation is a reservation as it is now.
func (c *controlRun) reservation(name string) (*pb.Reservation, error) {
	listed, err := client.AskOne(c.inv.Context, c.client, c.client.ListReservations, &pb.ListReservationsRequest{})
	if err != nil {
		return nil, client.LoadError(c.inv, client.LoadReservations, err)
	}
	at := slices.IndexFunc(listed.GetReservations(), func(r *pb.Reservation) bool { return r.Name == name })
	if at < 0 {
		fmt.Fprintf(c.inv.Stderr, "Reservation %s not found\n", format.Printable(name))
		return nil, option.Exit(1)
	}
	return listed.GetReservations()[at], nil
}

// reservationSettings are the words of a command as settings. "reservation" may stand
// alone before them.
func (c *controlRun) reservationSettings(words []string) ([]setting, error) {
	if !strings.Contains(words[0], "=") {
		words = words[1:]
		if len(words) > 0 && !strings.Contains(words[0], "=") {
			words = append([]string{"ReservationName=" + words[0]}, words[1:]...)
		}
	}
	var settings []setting
	for _, word := range words {
		key, value, is := strings.Cut(word, "=")
		if !is {
			return nil, c.aborted("Unknown parameter %s.  See man gcontrol for parameter list.", word)
		}
		if key = strings.ToLower(key); namesReservation([]string{key}) {
			key = "reservationname"
		}
		settings = append(settings, setting{key, strings.Trim(value, `"'`)})
	}
	return settings, nil
}
