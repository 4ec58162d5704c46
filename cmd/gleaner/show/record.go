package show

import (
	"bufio"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
)

// Record is one thing as scontrol prints it: lines of Key=value.
type Record struct {
	lines [][]string
}

// Line adds items that are on one line.
func (r *Record) Line(items ...string) { r.lines = append(r.lines, items) }

// Item is Key=value.
func Item(key, value string) string { return key + "=" + format.Printable(value) }

// Write prints the record as scontrol does: further lines indented, a blank
// line after it; or everything on one line.
func (r *Record) Write(out *bufio.Writer, oneLine bool) {
	separator, end := "\n   ", "\n\n"
	if oneLine {
		separator, end = " ", "\n"
	}
	for i, items := range r.lines {
		if i > 0 {
			_, _ = out.WriteString(separator) // a bufio.Writer keeps its error for Flush
		}
		_, _ = out.WriteString(strings.Join(items, " "))
	}
	_, _ = out.WriteString(end)
}
