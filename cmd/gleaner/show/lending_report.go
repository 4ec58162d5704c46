package show

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file shows what came of lending.

// OwnerUseRow is what jobs of one account had of one model of GPU.
type OwnerUseRow struct {
	Owner string
	What  string // LENT or BORROWED
	Use   *pb.OwnerUse
}

// OwnerUseRows are the rows of one owner.
func OwnerUseRows(report *pb.OwnerReport) []*OwnerUseRow {
	var rows []*OwnerUseRow
	for _, use := range report.GetLent() {
		rows = append(rows, &OwnerUseRow{report.GetOwner(), "lent to", use})
	}
	for _, use := range report.GetBorrowed() {
		rows = append(rows, &OwnerUseRow{report.GetOwner(), "borrowed from", use})
	}
	return rows
}

// OwnerUseTable is what can be shown of these.
var OwnerUseTable = format.NewTable([]format.Field[*OwnerUseRow]{
	useField('o', "OWNER", func(r *OwnerUseRow) string { return orDash(r.Owner) }),
	useField('w', "WHAT", func(r *OwnerUseRow) string { return r.What }),
	useField('a', "ACCOUNT", func(r *OwnerUseRow) string { return orDash(r.Use.GetAccount()) }),
	useField('m', "MODEL", func(r *OwnerUseRow) string { return orDash(r.Use.GetModel()) }),
	useField('G', "GPU-HOURS", func(r *OwnerUseRow) string { return hours(r.Use.GetGpuMs()) }),
	useField('C', "CPU-HOURS", func(r *OwnerUseRow) string { return hours(r.Use.GetCpuMs()) }),
	useField('b', "BILLED", func(r *OwnerUseRow) string { return Digits(r.Use.GetBilled()) }),
})

func useField(letter byte, header string, value func(*OwnerUseRow) string) format.Field[*OwnerUseRow] {
	return format.Field[*OwnerUseRow]{Letter: letter, Names: []string{header}, Header: header, Value: value}
}

// hours are milliseconds as hours with two digits.
func hours(ms uint64) string {
	const hour = 3_600_000
	return fmt.Sprintf("%d.%02d", ms/hour, ms%hour*100/hour)
}

// OwnerReportJSON is the record of an owner as JSON.
type OwnerReportJSON struct {
	Owner    string         `json:"owner"`
	Kept     uint32         `json:"kept"`
	Early    uint32         `json:"early"` // over before their deadline, with guests still there
	Open     uint32         `json:"open"`  // nodes that are reclaimed now
	Missed   []MissedJSON   `json:"missed"`
	Lent     []OwnerUseJSON `json:"lent"`
	Borrowed []OwnerUseJSON `json:"borrowed"`
}

// MissedJSON counts promises that were missed for one cause, as JSON.
type MissedJSON struct {
	Cause string `json:"cause"`
	Count uint32 `json:"count"`
}

// OwnerUseJSON is a row as JSON.
type OwnerUseJSON struct {
	Account    string `json:"account"`
	Model      string `json:"model"`
	GpuSeconds uint64 `json:"gpu_seconds"`
	CPUSeconds uint64 `json:"cpu_seconds"`
	Billed     uint64 `json:"billed"`
}

// OwnerReportJSONOf is the record of an owner as JSON.
func OwnerReportJSONOf(r *pb.OwnerReport) *OwnerReportJSON {
	record := &OwnerReportJSON{Owner: r.GetOwner(), Kept: r.GetKept(), Early: r.GetEarly(), Open: r.GetOpen(), Missed: []MissedJSON{}, Lent: usesJSON(r.GetLent()), Borrowed: usesJSON(r.GetBorrowed())}
	for _, m := range r.GetMissed() {
		record.Missed = append(record.Missed, MissedJSON{m.GetCause(), m.GetCount()})
	}
	return record
}

func usesJSON(uses []*pb.OwnerUse) []OwnerUseJSON {
	rows := []OwnerUseJSON{}
	for _, u := range uses {
		rows = append(rows, OwnerUseJSON{u.GetAccount(), u.GetModel(), u.GetGpuMs() / 1000, u.GetCpuMs() / 1000, u.GetBilled()})
	}
	return rows
}
