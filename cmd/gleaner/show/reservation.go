package show

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// flagWords are the flags of a reservation in Slurm's words, in Slurm's order: MAINT,
// DAILY.
func flagWords(r *pb.Reservation) []string {
	words := []string{}
	for _, flag := range r.Flags {
		words = append(words, strings.TrimPrefix(flag.String(), "RESERVATION_FLAG_"))
	}
	if r.Repeat != pb.ReservationRepeat_RESERVATION_REPEAT_NEVER {
		words = append(words, strings.TrimPrefix(r.Repeat.String(), "RESERVATION_REPEAT_"))
	}
	return append(words, "SPEC_NODES")
}

// reservationNames is in which reservations a job asked to run.
func reservationNames(asked *pb.JobSpec) string { return strings.Join(asked.GetReservations(), ",") }

// whoUses is the users or accounts of a reservation; each has a - before it if they are
// those who may not use it.
func whoUses(names []string, not bool) string {
	if not {
		return "-" + strings.Join(names, ",-")
	}
	return strings.Join(names, ",")
}

func reservationState(r *pb.Reservation) string {
	if r.Active {
		return "ACTIVE"
	}
	return "INACTIVE"
}

func reservationSeconds(r *pb.Reservation) uint32 { return uint32((r.EndMs - r.StartMs) / 1000) }

func reservationTres(r *pb.Reservation) string {
	text := "cpu=" + Digits(r.CpuCount)
	if r.GpuCount > 0 {
		text += ",gres/gpu=" + Digits(r.GpuCount)
	}
	return text
}

// WriteReservations prints reservations as "scontrol show reservation" does.
func WriteReservations(to io.Writer, reservations []*pb.Reservation, view *View, oneLine bool) error {
	out := bufio.NewWriter(to)
	if len(reservations) == 0 {
		fmt.Fprintln(out, "No reservations in the system")
	}
	for _, r := range reservations {
		record := &Record{}
		record.Line(Item("ReservationName", r.Name), Item("StartTime", view.Stamp(r.StartMs, "Unknown")), Item("EndTime", view.Stamp(r.EndMs, "Unknown")), Item("Duration", clockText(reservationSeconds(r))))
		record.Line(Item("Nodes", OrNull(r.Nodes)), Item("NodeCnt", Digits(r.NodeCount)), Item("CoreCnt", Digits(r.CpuCount)), "Features=(null)", Item("PartitionName", OrNull(r.Partition)), Item("Flags", strings.Join(flagWords(r), ",")))
		record.Line(Item("TRES", reservationTres(r)))
		record.Line("AllowedPartitions=(null)", "QOS=(null)")
		record.Line(Item("Users", OrNull(whoUses(r.Users, r.NotUsers))), "Groups=(null)", Item("Accounts", OrNull(whoUses(r.Accounts, r.NotAccounts))), "Licenses=(null)", Item("State", reservationState(r)), "BurstBuffer=(null)")
		record.Line("MaxStartDelay=(null)")
		record.Write(out, oneLine)
	}
	return out.Flush()
}

// WriteReservationTable prints reservations as "sinfo --reservation" does.
func WriteReservationTable(to io.Writer, reservations []*pb.Reservation, view *View, header bool) error {
	if len(reservations) == 0 {
		_, err := fmt.Fprintln(to, "No reservations in the system")
		return err
	}
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	if header {
		fmt.Fprintln(out, "RESV_NAME\tSTATE\tSTART_TIME\tEND_TIME\tDURATION\tNODELIST")
	}
	for _, r := range reservations {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", format.Printable(r.Name), reservationState(r), view.Stamp(r.StartMs, "Unknown"), view.Stamp(r.EndMs, "Unknown"),
			clockText(reservationSeconds(r)), format.Printable(r.Nodes))
	}
	return out.Flush()
}

// ReservationJSON is a reservation as Slurm's JSON has it (slurmrestd, "reservation_info").
type ReservationJSON struct {
	Accounts  string   `json:"accounts"`
	CoreCount uint32   `json:"core_count"`
	EndTime   Optional `json:"end_time"`
	Features  string   `json:"features"`
	Flags     []string `json:"flags"`
	Groups    string   `json:"groups"`
	Licenses  string   `json:"licenses"`
	Name      string   `json:"name"`
	NodeCount uint32   `json:"node_count"`
	NodeList  string   `json:"node_list"`
	Partition string   `json:"partition"`
	StartTime Optional `json:"start_time"`
	Tres      string   `json:"tres"`
	Users     string   `json:"users"`
	*reservationUnused
}

// reservationUnused is what no reservation has here.
type reservationUnused struct {
	BurstBuffer         string          `json:"burst_buffer"`
	CoreSpecializations []string        `json:"core_specializations"`
	MaxStartDelay       uint32          `json:"max_start_delay"`
	PurgeCompleted      reservationTime `json:"purge_completed"`
	Watts               struct{}        `json:"watts"`
}

type reservationTime struct {
	Time Optional `json:"time"`
}

// Reservation is a reservation as a record of this shape.
func (s JSONShape) Reservation(r *pb.Reservation) *ReservationJSON {
	record := &ReservationJSON{
		Accounts: whoUses(r.Accounts, r.NotAccounts), CoreCount: r.CpuCount, EndTime: s.moment(r.EndMs), Flags: flagWords(r), Name: r.Name,
		NodeCount: r.NodeCount, NodeList: r.Nodes, Partition: r.Partition, StartTime: s.moment(r.StartMs), Tres: reservationTres(r), Users: whoUses(r.Users, r.NotUsers),
	}
	if s != JSONOld {
		record.reservationUnused = &reservationUnused{CoreSpecializations: []string{}, PurgeCompleted: reservationTime{Optional{Shape: s}}}
	}
	return record
}
