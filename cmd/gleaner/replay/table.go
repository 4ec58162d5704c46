package replay

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// table is rows whose first column is text, and whose others are figures.
type table [][]string

func (t *table) add(words ...string) { *t = append(*t, words) }

func (t table) print(out io.Writer) {
	var widths []int
	for _, row := range t {
		for i, word := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(word))
		}
	}
	for _, row := range t {
		var line strings.Builder
		for i, word := range row {
			if gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(word)); i == 0 {
				line.WriteString(word + gap)
			} else {
				line.WriteString("  " + gap + word)
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

// Print prints results of one trace, the last line with the figures of the first. With
// two that have no owners, or another policy, it compares them by account and by model
// of GPU.
func Print(out io.Writer, results []*sim.Result) {
	rows := table{{"POLICY", "JOBS", "MEAN_WAIT_S", "MEDIAN_S", "P95_S", "AVEBSLD", "UTILIZATION"}}
	for _, r := range results {
		f, w := r.Figures(), r.WaitsOf(everyone)
		rows.add(format.Printable(r.Policy), fmt.Sprint(f.Jobs), figure(w.Mean, 1), figure(w.Median, 0), figure(w.P95, 0), figure(f.MeanSlowdown, 2), figure(f.Utilization, 4))
	}
	rows.print(out)
	if len(results) == 2 {
		printComparison(out, results[0], results[1])
	}
	f := results[0].Figures()
	fmt.Fprintf(out, "mean_wait_s=%.1f avebsld=%.2f utilization=%.4f\n", f.MeanWaitS, f.MeanSlowdown, f.Utilization)
}

func everyone(*sim.Outcome) bool { return true }

func figure(value float64, digits int) string { return fmt.Sprintf("%.*f", digits, value) }

func printComparison(out io.Writer, a, b *sim.Result) {
	longer, shorter := longerShorter(a, b)
	fmt.Fprintf(out, "\nUnder %s %d jobs wait longer and %d shorter than under %s.\n", format.Printable(b.Policy), longer, shorter, format.Printable(a.Policy))
	PrintChanges(out, "ACCOUNT", sim.Changes(a, b, sim.ByAccount))
	PrintChanges(out, "GPU_MODEL", sim.Changes(a, b, sim.ByModel))
}

func longerShorter(a, b *sim.Result) (longer, shorter int) {
	for i := range a.Jobs {
		switch {
		case b.Jobs[i].EndS > a.Jobs[i].EndS:
			longer++
		case b.Jobs[i].EndS < a.Jobs[i].EndS:
			shorter++
		}
	}
	return longer, shorter
}

// maxShown bounds how many rows are shown of those that wait longer, and of the others.
const maxShown = 10

// PrintChanges prints how waits differ, by what the title says; nothing if there is only
// one row.
func PrintChanges(out io.Writer, title string, all []sim.Change) {
	if len(all) < 2 {
		return
	}
	rows := table{{title, "JOBS", "MEAN_WAIT_S", "THEN", "P95_S", "THEN"}}
	for i, c := range all {
		if i == maxShown && len(all) > 2*maxShown {
			rows.add(fmt.Sprintf("(%d between)", len(all)-2*maxShown))
		}
		if i < maxShown || i >= len(all)-maxShown {
			rows.add(orNone(c.Name), fmt.Sprint(c.Before.Jobs), figure(c.Before.Mean, 1), figure(c.After.Mean, 1), figure(c.Before.P95, 0), figure(c.After.P95, 0))
		}
	}
	rows.print(out)
}

func orNone(name string) string {
	if name == "" {
		return "(none)"
	}
	return format.Printable(name)
}
