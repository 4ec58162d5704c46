// Package acct is gacct, Slurm's sacct: jobs and their steps, those that are long over too.
//
// Lines are printed as they come, in the order of the jobs' numbers, so that memory stays
// bounded however many there are.
package acct

import (
	"bufio"
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func runAcct(inv *option.Invocation) error {
	if len(inv.Operands) > 0 {
		return inv.Fail("Unrecognized option: %s", inv.Operands[0])
	}
	if inv.Given("helpformat") {
		return printNames(inv)
	}
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	printer, err := newPrinter(inv)
	if err != nil {
		return err
	}
	now := console.Clock()
	wanted, err := choose(inv, now)
	if err != nil {
		return err
	}
	controllers, err := past.Connect(inv)
	if err != nil {
		return err
	}
	defer controllers.Close()
	view := show.NewView(inv.Getenv, now)
	view.WholeUnits = inv.Given("noconvert")
	if shape != show.JSONNone {
		return writeJSON(inv, shape, view, func(use func(*pb.PastRun) error) error {
			return past.Ask(inv, controllers, wanted.request, func(run *pb.PastRun) error {
				if len(wanted.rows(run, view)) == 0 {
					return nil
				}
				return use(run)
			})
		})
	}
	printer.header()
	err = past.Ask(inv, controllers, wanted.request, func(run *pb.PastRun) error {
		for _, one := range wanted.rows(run, view) {
			printer.line(&row{Row: one, view: view, unit: printer.unit})
		}
		return nil
	})
	if err != nil {
		return past.Failed(inv, err)
	}
	return console.Output(printer.out.Flush())
}

// printer writes lines.
type printer struct {
	out       *bufio.Writer
	columns   []column
	headed    bool
	parsable  bool
	ended     bool // a delimiter after the last column too
	delimiter string
	unit      byte
}

func newPrinter(inv *option.Invocation) (*printer, error) {
	text := cmp.Or(inv.Getenv("SACCT_FORMAT"), defaultFormat)
	switch {
	case inv.Given("format"):
		text = strings.Join(inv.All("format"), ",")
	case inv.Given("long"):
		text = longFormat
	case inv.Given("brief"):
		text = briefFormat
	}
	chosen, err := parseFormat(inv, text)
	if err != nil {
		return nil, err
	}
	p := &printer{
		out: bufio.NewWriterSize(inv.Stdout, 64<<10), columns: chosen, headed: !inv.Given("noheader"),
		parsable: inv.Given("parsable") || inv.Given("parsable2"), ended: inv.Given("parsable"), delimiter: "|",
	}
	if inv.Given("delimiter") {
		p.delimiter, p.parsable = inv.Text("delimiter"), true
		p.ended = p.ended || !inv.Given("parsable2")
	}
	if inv.Given("units") {
		unit := strings.ToUpper(inv.Text("units"))
		if len(unit) != 1 || !strings.Contains(units, unit) {
			return nil, inv.Fail("Invalid unit type: %s; name one of K, M, G, T and P", inv.Text("units"))
		}
		p.unit = unit[0]
	}
	return p, nil
}

func (p *printer) header() {
	if !p.headed {
		return
	}
	names, rules := make([]string, len(p.columns)), make([]string, len(p.columns))
	for i := range p.columns {
		names[i], rules[i] = p.columns[i].name, strings.Repeat("-", max(p.columns[i].width, -p.columns[i].width))
	}
	p.cells(names)
	if !p.parsable {
		p.cells(rules)
	}
}

func (p *printer) line(r *row) {
	values := make([]string, len(p.columns))
	for i := range p.columns {
		values[i] = p.columns[i].text(r)
	}
	p.cells(values)
}

func (p *printer) cells(values []string) {
	for i, value := range values {
		switch {
		case p.parsable:
			_, _ = p.out.WriteString(format.Printable(value)) // a bufio.Writer keeps its error for Flush
			if p.ended || i < len(values)-1 {
				_, _ = p.out.WriteString(p.delimiter)
			}
		default:
			_, _ = p.out.WriteString(cell(value, p.columns[i].width) + " ")
		}
	}
	_ = p.out.WriteByte('\n')
}

// cell fills a value, or cuts it and adds a plus, as sacct does.
func cell(text string, width int) string {
	text = format.Printable(text)
	wide := max(width, -width)
	if utf8.RuneCountInString(text) > wide {
		return string([]rune(text)[:wide-1]) + "+"
	}
	return fmt.Sprintf("%*s", width, text)
}

func printNames(inv *option.Invocation) error {
	out := bufio.NewWriter(inv.Stdout)
	for i := range columns {
		fmt.Fprintf(out, "%-19s", columns[i].name)
		if i%4 == 3 || i == len(columns)-1 {
			fmt.Fprintln(out)
		}
	}
	return console.Output(out.Flush())
}
