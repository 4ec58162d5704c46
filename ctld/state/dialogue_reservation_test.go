package state

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has the words of dialogues about reservations:
//
//	reserve [NAME] start=+SECONDS end=+SECONDS [nodes=n1,n2] [count=N] [gpus=N] [model=M] [partition=P] [features=F]
//	        [users=A,B] [not-users] [accounts=A,B] [not-accounts] [flags=MAINT,FLEX] [repeat=DAILY]
//	change-reservation NAME of the same, those that are given
//	unreserve NAME
//	end-reservations [next=+SECONDS lasts=SECONDS]
//	reservations

func (d *dialogue) reservation(a arguments) (r Reservation, fields []string) {
	list := func(key, field string) []string {
		if _, given := a.values[key]; given {
			fields = append(fields, field)
		}
		return strings.FieldsFunc(a.values[key], func(c rune) bool { return c == ',' })
	}
	m := &pb.Reservation{
		Partition: a.values["partition"], NotUsers: a.is("not-users"), NotAccounts: a.is("not-accounts"),
		Users: list("users", "users"), Accounts: list("accounts", "accounts"),
	}
	if len(a.words) > 0 && !strings.HasPrefix(a.words[0], "not-") {
		m.Name = a.words[0]
	}
	if list("start", "start_ms") != nil {
		m.StartMs = d.moment(a, "start")
	}
	if list("end", "end_ms") != nil {
		m.EndMs = d.moment(a, "end")
	}
	for _, word := range list("flags", "flags") {
		m.Flags = append(m.Flags, pb.ReservationFlag(pb.ReservationFlag_value["RESERVATION_FLAG_"+strings.ReplaceAll(word, " ", "_")]))
	}
	for _, word := range list("repeat", "repeat") {
		m.Repeat = pb.ReservationRepeat(pb.ReservationRepeat_value["RESERVATION_REPEAT_"+word])
	}
	return ReservationFromMessage(m, list("nodes", "nodes")), fields
}

func (d *dialogue) reserve(verb string, a arguments) Command {
	switch verb {
	case "unreserve":
		return DeleteReservation{Name: a.words[0]}
	case "change-reservation":
		r, fields := d.reservation(a)
		return UpdateReservation{Reservation: r, Fields: fields, User: "root"}
	case "end-reservations":
		c := EndReservations{}
		for _, r := range d.state.View().EndedReservations(d.nowMS) {
			end := ReservationEnd{Name: r.Name, EndMS: r.EndMS}
			if a.values["next"] != "" {
				end.NextStartMS = d.moment(a, "next")
				end.NextEndMS = end.NextStartMS + int64(a.number("lasts"))*1000
			}
			c.Ends = append(c.Ends, end)
		}
		return c
	}
	r, _ := d.reservation(a)
	if wanted := (&NodesWanted{Count: int(a.number("count")), GPUs: a.number("gpus"), Model: a.values["model"]}); wanted.Count > 0 || wanted.GPUs > 0 {
		if err := wanted.WithFeatures(a.values["features"]); err != nil {
			d.refused = err.Error()
			return CreateReservation{}
		}
		nodes, refused := d.state.View().ReservableNodes(&r, wanted)
		if refused != nil {
			d.refused = refused.Message
		}
		r.Nodes = nodes
	}
	return CreateReservation{Reservation: r, User: "root"}
}

func (d *dialogue) reservations() string {
	v := d.state.View()
	var out strings.Builder
	for r := range v.Reservations() {
		m := v.ReservationMessage(r, d.nowMS)
		words := []string{}
		for _, flag := range m.Flags {
			words = append(words, strings.TrimPrefix(flag.String(), "RESERVATION_FLAG_"))
		}
		fmt.Fprintf(&out, "%s from %+d s to %+d s nodes %s (%d CPUs, %d GPUs) users %v not %v accounts %v not %v flags %v %s active %v\n",
			m.Name, (m.StartMs-d.nowMS)/1000, (m.EndMs-d.nowMS)/1000, m.Nodes, m.CpuCount, m.GpuCount, m.Users, m.NotUsers, m.Accounts, m.NotAccounts, words, strings.TrimPrefix(m.Repeat.String(), "RESERVATION_REPEAT_"), m.Active)
	}
	for node := range v.Nodes() {
		if m := v.NodeMessage(node); m.Reservation != "" {
			fmt.Fprintf(&out, "%s has %s, maintenance %v\n", m.Name, m.Reservation, m.Maintenance)
		}
	}
	return out.String()
}
