package lend

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// settingOptions set terms, and are of no use to what only shows.
var settingOptions = []string{"hours", "time-zone", "notice", "gpus", "accounts", "images", "guest-memory", "guest-tmp", "parked-memory", "max-time", "kill", "nested", "triggers", "quiet", "reset", "dry-run"}

// report is glend report: the record of owners.
func report(inv *option.Invocation, shape show.JSONShape) error {
	if len(inv.Operands) > 1 {
		return inv.Fail("Unrecognized option: %s\nglend report is about all nodes of your accounts", inv.Operands[1])
	}
	for _, long := range slices.Concat(settingOptions, []string{"mine"}) {
		if inv.Given(long) {
			return inv.Fail("--%s sets or names something, and glend report only shows: leave it out", long)
		}
	}
	request, now := &pb.ReportLendingRequest{}, console.Clock()
	for _, end := range []struct {
		long string
		to   *int64
	}{{"since", &request.SinceMs}, {"until", &request.UntilMs}} {
		if !inv.Given(end.long) {
			continue
		}
		moment, err := spec.ParseMoment(inv.Text(end.long), now)
		if err != nil {
			return inv.Fail("--%s: %w", end.long, err)
		}
		*end.to = moment.UnixMilli()
	}
	controller, err := client.Connect(inv)
	if err != nil {
		return err
	}
	defer controller.Close()
	answer, err := client.AskOne(inv.Context, controller, controller.ReportLending, request)
	if err != nil {
		return option.Fail(1, "Lend error: %s", client.Describe(err))
	}
	if shape != show.JSONNone {
		records := make([]*show.OwnerReportJSON, 0, len(answer.GetOwners()))
		for _, owner := range answer.GetOwners() {
			records = append(records, show.OwnerReportJSONOf(owner))
		}
		return console.Output(show.WriteJSON(inv, shape, "owners", records))
	}
	return console.Output(printReport(inv, answer.GetOwners()))
}

func printReport(inv *option.Invocation, owners []*pb.OwnerReport) error {
	out := bufio.NewWriter(inv.Stdout)
	var rows []*show.OwnerUseRow
	for _, owner := range owners {
		missed := uint32(0)
		for _, m := range owner.GetMissed() {
			missed += m.GetCount()
		}
		text := fmt.Sprintf("%s: %d promises: %d kept, %d missed", owner.GetOwner(), uint64(owner.GetKept())+uint64(missed), owner.GetKept(), missed)
		if owner.GetEarly() > 0 {
			text += fmt.Sprintf("; %d more reclaims were over before their deadline", owner.GetEarly())
		}
		if owner.GetOpen() > 0 {
			text += fmt.Sprintf("; nodes reclaimed now: %d", owner.GetOpen())
		}
		fmt.Fprintln(out, format.Printable(text))
		for _, m := range owner.GetMissed() {
			fmt.Fprintln(out, format.Printable(fmt.Sprintf("%s: missed %d: %s", owner.GetOwner(), m.GetCount(), cmp.Or(m.GetCause(), "unknown"))))
		}
		rows = append(rows, show.OwnerUseRows(owner)...)
	}
	if len(rows) == 0 {
		return out.Flush()
	}
	layout, err := show.OwnerUseTable.ParseShort("%#o %#w %#a %#m %#G %#C %b")
	if err != nil {
		return err
	}
	layout.Fit(rows)
	_, _ = out.Write(layout.Header(nil)) // a bufio.Writer keeps its error for Flush
	for _, row := range rows {
		_, _ = out.Write(layout.Row(nil, row))
	}
	return out.Flush()
}
