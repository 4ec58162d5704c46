package share

import (
	"bufio"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// shareColumn is a column of gshare. Names and widths are those of sshare(1).
type shareColumn struct {
	name   string
	width  int // less than 0: the blanks come after the value
	value  func(*shareRow) string
	limits bool // it is about them, and they have to be asked for
}

var shareColumns = []shareColumn{
	{name: "Account", width: -20, value: func(s *shareRow) string { return strings.Repeat(" ", int(min(s.Depth, 64))) + s.Account }},
	{name: "User", width: 10, value: func(s *shareRow) string { return s.User }},
	{name: "Partition", width: 12, value: func(s *shareRow) string { return s.Partition }},
	{name: "RawShares", width: 10, value: func(s *shareRow) string {
		switch {
		case s.ShareParent:
			return "parent"
		case isRoot(s.Share):
			return ""
		}
		return show.Digits(s.RawShares)
	}},
	{name: "NormShares", width: 11, value: func(s *shareRow) string { return fraction(s.NormShares) }},
	{name: "RawUsage", width: 11, value: func(s *shareRow) string { return strconv.FormatFloat(math.Floor(s.RawUsage), 'f', 0, 64) }},
	{name: "NormUsage", width: 11, value: func(s *shareRow) string { return fraction(s.NormUsage) }},
	{name: "EffectvUsage", width: 13, value: func(s *shareRow) string { return fraction(s.EffectiveUsage) }},
	{name: "FairShare", width: 10, value: func(s *shareRow) string {
		if s.FairShare == nil {
			return ""
		}
		return fraction(*s.FairShare)
	}},
	{name: "LevelFS", width: 10, value: func(s *shareRow) string {
		switch {
		case s.LevelFs == nil:
			return ""
		case math.IsInf(*s.LevelFs, 1):
			return "inf"
		}
		return fraction(*s.LevelFs)
	}},
	{name: "GrpTRESMins", width: 30, value: (*shareRow).groupMinutes, limits: true},
	{name: "TRESRunMins", width: 30, value: (*shareRow).runMinutes, limits: true},
}

func isRoot(s *pb.Share) bool { return s.User == "" && s.Parent == "" }

func fraction(n float64) string { return strconv.FormatFloat(n, 'f', 6, 64) }

// The columns of gshare, those of sshare(1).
const (
	shareFormat     = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
	shareLongFormat = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
)

// shareColumnsOf chooses the columns: names with %width, a minus for blanks
// after the value.
func shareColumnsOf(inv *option.Invocation) ([]shareColumn, error) {
	text := shareFormat
	switch {
	case inv.Given("format"):
		text = inv.Text("format")
	case inv.Given("long"):
		text = shareLongFormat
	}
	if inv.Given("partition") && !inv.Given("format") {
		text = strings.Replace(text, "User,", "User,Partition,", 1)
	}
	var columns []shareColumn
	for word := range strings.SplitSeq(text, ",") {
		name, size, sized := strings.Cut(strings.TrimSpace(word), "%")
		if name == "" {
			continue
		}
		column, err := shareColumnNamed(inv, name)
		if err != nil {
			return nil, err
		}
		if sized {
			width, err := strconv.Atoi(size)
			if err != nil || width == 0 || width > format.MaxWidth || width < -format.MaxWidth {
				return nil, inv.Fail("Invalid width %q of field %s: write a number, as in Account%%30", size, name)
			}
			column.width = width
		}
		columns = append(columns, column)
	}
	if len(columns) == 0 || len(columns) > format.MaxColumns {
		return nil, inv.Fail("--format needs 1 to %d fields; gshare --helpformat lists them", format.MaxColumns)
	}
	return columns, nil
}

// shareColumnNamed takes any beginning of a name, in any case, as sshare does.
func shareColumnNamed(inv *option.Invocation, name string) (shareColumn, error) {
	var names []string
	for _, column := range shareColumns {
		if strings.HasPrefix(strings.ToLower(column.name), strings.ToLower(name)) {
			return column, nil
		}
		names = append(names, column.name)
	}
	advice := "gshare --helpformat lists them"
	if meant := similar.Nearest(name, names); meant != "" {
		advice = "did you mean " + meant + "?"
	}
	return shareColumn{}, inv.Fail("Invalid field requested: %q; %s", name, advice)
}

func printShareNames(inv *option.Invocation) error {
	out := bufio.NewWriter(inv.Stdout)
	for i, column := range shareColumns {
		fmt.Fprintf(out, "%-17s", column.name)
		if i%4 == 3 || i == len(shareColumns)-1 {
			fmt.Fprintln(out)
		}
	}
	return console.Output(out.Flush())
}

func printShares(out *bufio.Writer, inv *option.Invocation, columns []shareColumn, rows []*shareRow) {
	parsable, ended := inv.Given("parsable") || inv.Given("parsable2"), inv.Given("parsable")
	line := func(values []string) {
		for i, value := range values {
			switch {
			case parsable:
				_, _ = out.WriteString(format.Printable(value))
				if ended || i < len(values)-1 {
					_ = out.WriteByte('|')
				}
			default:
				_, _ = out.WriteString(shareCell(value, columns[i].width) + " ")
			}
		}
		_ = out.WriteByte('\n')
	}
	if !inv.Given("noheader") && !inv.Given(optNoHeader) {
		headers, rules := make([]string, len(columns)), make([]string, len(columns))
		for i, column := range columns {
			headers[i] = column.name
			rules[i] = strings.Repeat("-", max(column.width, -column.width))
			if !parsable {
				headers[i] = shareCell(column.name, max(column.width, -column.width))
			}
		}
		line(headers)
		if !parsable {
			line(rules)
		}
	}
	for _, row := range rows {
		values := make([]string, len(columns))
		for i, column := range columns {
			values[i] = column.value(row)
		}
		line(values)
	}
}

// shareCell fills a value, or cuts it and adds a plus, as sshare does.
func shareCell(text string, width int) string {
	text = format.Printable(text)
	wide := max(width, -width)
	if length := utf8.RuneCountInString(text); length > wide {
		return string([]rune(text)[:wide-1]) + "+"
	}
	return fmt.Sprintf("%*s", width, text)
}
