package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// thousands writes a number with so many digits after the point and a comma
// between thousands.
func thousands(value float64, digits int) string {
	text := strconv.FormatFloat(value, 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	sign := ""
	if rest, ok := strings.CutPrefix(whole, "-"); ok {
		sign, whole = "-", rest
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole
}

// text is a cell as printed: the median and, below several runs, the spread.
func (t *table) text(r row, c column) string {
	f := t.figures(r.measure, c)
	if f == nil {
		return ""
	}
	if f.Runs == 1 {
		return thousands(f.Median, r.digits)
	}
	return fmt.Sprintf("%s (%s–%s)", thousands(f.Median, r.digits), thousands(f.Min, r.digits), thousands(f.Max, r.digits))
}

// lines are the table's cells as texts, the head first.
func (t *table) lines() [][]string {
	head := []string{"measure", "unit", "runs"}
	for _, c := range columns {
		head = append(head, string(c))
	}
	lines := [][]string{append(head, "÷ Slurm", "÷ tuned", "÷ bare")}
	for _, r := range t.rows {
		runs := 0
		for _, c := range columns {
			if f := t.figures(r.measure, c); f != nil {
				runs = max(runs, f.Runs)
			}
		}
		line := []string{r.what, r.unit, strconv.Itoa(runs)}
		for _, c := range columns {
			line = append(line, t.text(r, c))
		}
		for _, c := range columns[1:] {
			ratio := ""
			if x := t.ratio(r.measure, c); x > 0 {
				ratio = strconv.FormatFloat(x, 'g', 3, 64)
			}
			line = append(line, ratio)
		}
		lines = append(lines, line)
	}
	return lines
}

// reasons are the sentences about what could not be measured, each once.
func (t *table) reasons() []string {
	var reasons []string
	for _, r := range t.rows {
		for _, c := range columns {
			if why := t.cell(r.measure, c).why; why != "" {
				reasons = append(reasons, fmt.Sprintf("%s: %s", c, why))
			}
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// writeText writes the table in aligned columns.
func (t *table) writeText(out io.Writer) error {
	lines := t.lines()
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	var all strings.Builder
	for n, line := range lines {
		for i, text := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if i == 0 {
				all.WriteString(text + pad)
			} else {
				all.WriteString("  " + pad + text)
			}
		}
		all.WriteByte('\n')
		if n == 0 {
			total := 2 * (len(widths) - 1)
			for _, width := range widths {
				total += width
			}
			all.WriteString(strings.Repeat("-", total) + "\n")
		}
	}
	_, err := io.WriteString(out, all.String())
	return err
}

// writeMarkdown writes the report in the form in which docs/benchmarks.md has
// it.
func writeMarkdown(out io.Writer, m machine, t *table, aims []aim) error {
	var all strings.Builder
	fmt.Fprintf(&all, "%s\n\n", strings.Join(m.sentences(), " "))
	for n, line := range t.lines() {
		all.WriteString("| " + strings.Join(line, " | ") + " |\n")
		if n == 0 {
			all.WriteString("|---" + strings.Repeat("|---:", len(line)-1) + "|\n")
		}
	}
	all.WriteString("\n")
	for _, sentence := range append(notes(), t.reasons()...) {
		fmt.Fprintf(&all, "- %s\n", sentence)
	}
	all.WriteString("\n| aim | reached | figure |\n|---|---|---|\n")
	for _, a := range aims {
		fmt.Fprintf(&all, "| %s | %s | %s |\n", a.What, a.verdict(), a.Figure)
	}
	_, err := io.WriteString(out, all.String())
	return err
}

// writeJSON writes everything that was measured.
func writeJSON(out io.Writer, m machine, t *table, aims []aim) error {
	type jsonRow struct {
		Measure measure             `json:"measure"`
		What    string              `json:"what"`
		Unit    string              `json:"unit"`
		Sides   map[column]*figures `json:"sides"`
		Ratios  map[column]float64  `json:"ratios"` // Gleaner's by the other's, paired
	}
	report := struct {
		Machine machine   `json:"machine"`
		Rows    []jsonRow `json:"rows"`
		Missing []string  `json:"missing"`
		Aims    []aim     `json:"aims"`
	}{Machine: m, Missing: t.reasons(), Aims: aims}
	for _, r := range t.rows {
		one := jsonRow{r.measure, r.what, r.unit, map[column]*figures{}, map[column]float64{}}
		for _, c := range columns {
			if f := t.figures(r.measure, c); f != nil {
				one.Sides[c] = f
			}
			if x := t.ratio(r.measure, c); c != ours && x > 0 {
				one.Ratios[c] = x
			}
		}
		report.Rows = append(report.Rows, one)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}
