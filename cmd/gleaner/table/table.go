// Package table prints rows in the columns of Slurm's accounting commands, sacct, sstat
// and sshare: their --format, widths, --parsable and --helpformat.
//
// Contract: whatever a value holds, a line is a line, and what a terminal would obey is
// not printed. A name that is no column is refused before anything is printed.
package table

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// Column is one column of rows of a kind.
type Column[Row any] struct {
	Name  string
	Width int // less than 0: the blanks come after the value
	Value func(Row) string
}

// Printer prints a table.
type Printer[Row any] struct {
	out       *bufio.Writer
	columns   []Column[Row]
	headed    bool
	parsable  bool
	ended     bool // a delimiter after the last column too
	right     bool // all names are at the right of their columns, as sshare's
	delimiter string
	values    []string // of the last line, and its text: their room is used again
	line      []byte
}

// New reads --format, or takes the text, and the options that say how it is printed.
func New[Row any](inv *option.Invocation, all []Column[Row], text string) (*Printer[Row], error) {
	if inv.Given("format") {
		text = strings.Join(inv.All("format"), ",")
	}
	chosen, err := parse(inv, all, text)
	if err != nil {
		return nil, err
	}
	p := &Printer[Row]{
		out: bufio.NewWriterSize(inv.Stdout, 64<<10), columns: chosen, headed: !inv.Given("noheader"),
		parsable: inv.Given("parsable") || inv.Given("parsable2"), ended: inv.Given("parsable"), delimiter: "|",
	}
	if inv.Given("delimiter") {
		p.delimiter, p.parsable = inv.Text("delimiter"), true
		p.ended = p.ended || !inv.Given("parsable2")
	}
	return p, nil
}

// Has says whether a column of that name is printed.
func (p *Printer[Row]) Has(name string) bool {
	return slices.ContainsFunc(p.columns, func(c Column[Row]) bool { return c.Name == name })
}

// Names are those of the columns that are printed.
func (p *Printer[Row]) Names() []string {
	names := make([]string, len(p.columns))
	for i := range p.columns {
		names[i] = p.columns[i].Name
	}
	return names
}

// HeadRight has the header's names at the right of their columns, whatever the values do.
func (p *Printer[Row]) HeadRight() { p.right = true }

// Header prints the names.
func (p *Printer[Row]) Header() {
	if !p.headed {
		return
	}
	names, rules := make([]string, len(p.columns)), make([]string, len(p.columns))
	for i := range p.columns {
		wide := max(p.columns[i].Width, -p.columns[i].Width)
		names[i], rules[i] = p.columns[i].Name, strings.Repeat("-", wide)
		if p.right && !p.parsable {
			names[i] = string(format.AppendCell(nil, names[i], wide))
		}
	}
	p.cells(names)
	if !p.parsable {
		p.cells(rules)
	}
}

// Line prints a row.
func (p *Printer[Row]) Line(row Row) {
	values := p.values[:0]
	for i := range p.columns {
		values = append(values, p.columns[i].Value(row))
	}
	p.values = values
	p.cells(values)
}

// Flush ends the table.
func (p *Printer[Row]) Flush() error { return console.Output(p.out.Flush()) }

// cells prints a line. Tables are long: nothing is made that the next line cannot use again.
func (p *Printer[Row]) cells(values []string) {
	line := p.line[:0]
	for i, value := range values {
		switch {
		case p.parsable:
			line = format.AppendPrintable(line, value)
			if p.ended || i < len(values)-1 {
				line = append(line, p.delimiter...)
			}
		default:
			line = append(format.AppendCell(line, value, p.columns[i].Width), ' ')
		}
	}
	p.line = append(line, '\n')
	_, _ = p.out.Write(p.line) // a bufio.Writer keeps its error for Flush
}

// PrintNames is --helpformat: four names to a line, each in at least so many characters, with
// a blank between them. Clients split the page at blanks, however long a name is.
func PrintNames[Row any](inv *option.Invocation, all []Column[Row], width int) error {
	out := bufio.NewWriter(inv.Stdout)
	for i := range all {
		end := " "
		if i%4 == 3 || i == len(all)-1 {
			end = "\n"
		}
		fmt.Fprintf(out, "%-*s%s", width, all[i].Name, end)
	}
	return console.Output(out.Flush())
}

// parse reads names with %width, a minus for blanks after the value.
func parse[Row any](inv *option.Invocation, all []Column[Row], text string) ([]Column[Row], error) {
	var chosen []Column[Row]
	for word := range strings.SplitSeq(text, ",") {
		name, size, sized := strings.Cut(strings.TrimSpace(word), "%")
		if name == "" {
			continue
		}
		if strings.EqualFold(name, "ALL") {
			chosen = append(chosen, all...)
			continue
		}
		one, err := named(inv, all, name)
		if err != nil {
			return nil, err
		}
		if sized {
			width, err := strconv.Atoi(size)
			if err != nil || width == 0 || width > format.MaxWidth || width < -format.MaxWidth {
				return nil, inv.Fail("Invalid width %q of field %s: write a number, as in JobName%%30", size, name)
			}
			one.Width = width
		}
		chosen = append(chosen, one)
	}
	if len(chosen) == 0 || len(chosen) > 2*format.MaxColumns {
		return nil, inv.Fail("--format needs 1 to %d fields; %s --helpformat lists them", 2*format.MaxColumns, inv.Command.Program())
	}
	return chosen, nil
}

// named takes a name, or the beginning of one, in any case, as sacct does.
func named[Row any](inv *option.Invocation, all []Column[Row], name string) (Column[Row], error) {
	var names []string
	found := -1
	for i := range all {
		if strings.EqualFold(all[i].Name, name) {
			return all[i], nil
		}
		if found < 0 && len(name) < len(all[i].Name) && strings.EqualFold(all[i].Name[:len(name)], name) {
			found = i
		}
		names = append(names, all[i].Name)
	}
	if found >= 0 {
		return all[found], nil
	}
	advice := ""
	if meant := similar.Nearest(name, names); meant != "" && inv.Command.CalledAs == "" {
		advice = "; did you mean " + meant + "?"
	}
	return Column[Row]{}, inv.Fail("Invalid field requested: %q%s", name, advice)
}
