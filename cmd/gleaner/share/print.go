package share

import (
	"math"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/table"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// The columns about limits, which have to be asked for.
const (
	nameMinutes    = "GrpTRESMins"
	nameRunMinutes = "TRESRunMins"
)

// shareColumns are the columns of gshare. Names and widths are those of sshare(1).
var shareColumns = []table.Column[*shareRow]{
	{Name: "Account", Width: -20, Value: func(s *shareRow) string { return strings.Repeat(" ", int(min(s.Depth, 64))) + s.Account }},
	{Name: "User", Width: 10, Value: func(s *shareRow) string { return s.User }},
	{Name: "Partition", Width: 12, Value: func(s *shareRow) string { return s.Partition }},
	{Name: "RawShares", Width: 10, Value: func(s *shareRow) string {
		switch {
		case s.ShareParent:
			return "parent"
		case isRoot(s.Share):
			return ""
		}
		return show.Digits(s.RawShares)
	}},
	{Name: "NormShares", Width: 11, Value: func(s *shareRow) string { return fraction(s.NormShares) }},
	{Name: "RawUsage", Width: 11, Value: func(s *shareRow) string { return strconv.FormatFloat(math.Floor(s.RawUsage), 'f', 0, 64) }},
	{Name: "NormUsage", Width: 11, Value: func(s *shareRow) string { return fraction(s.NormUsage) }},
	{Name: "EffectvUsage", Width: 13, Value: func(s *shareRow) string { return fraction(s.EffectiveUsage) }},
	{Name: "FairShare", Width: 10, Value: func(s *shareRow) string {
		if s.FairShare == nil {
			return ""
		}
		return fraction(*s.FairShare)
	}},
	{Name: "LevelFS", Width: 10, Value: func(s *shareRow) string {
		switch {
		case s.LevelFs == nil:
			return ""
		case math.IsInf(*s.LevelFs, 1):
			return "inf"
		}
		return fraction(*s.LevelFs)
	}},
	{Name: nameMinutes, Width: 30, Value: (*shareRow).groupMinutes},
	{Name: nameRunMinutes, Width: 30, Value: (*shareRow).runMinutes},
}

func isRoot(s *pb.Share) bool { return s.User == "" && s.Parent == "" }

func fraction(n float64) string { return strconv.FormatFloat(n, 'f', 6, 64) }

// The columns of gshare, those of sshare(1).
const (
	shareFormat     = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
	shareLongFormat = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
)

// newPrinter makes the table. sshare has all names of columns at the right.
func newPrinter(inv *option.Invocation) (*table.Printer[*shareRow], error) {
	text := shareFormat
	if inv.Given("long") {
		text = shareLongFormat
	}
	if inv.Given("partition") {
		text = strings.Replace(text, "User,", "User,Partition,", 1)
	}
	printer, err := table.New(inv, shareColumns, text)
	if err == nil {
		printer.HeadRight()
	}
	return printer, err
}
