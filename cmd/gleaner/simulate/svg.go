package simulate

import (
	"fmt"
	"html"
	"io"

	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// The picture: a pair of panels for each policy, of so many columns.
const (
	columns    = 800
	panel      = 120
	gap        = 34
	leftMargin = 60
)

// series are means over the columns of the picture.
type series struct{ used, waited []float64 }

// draw draws how many processors are in use and how many are waited for.
func draw(out io.Writer, results []*sim.Result) {
	from, to := results[0].Jobs[0].SubmitS, int64(0)
	for _, r := range results {
		for i := range r.Jobs {
			to = max(to, r.Jobs[i].StartS+r.Jobs[i].RunS)
		}
	}
	all, most := make([]series, len(results)), 1.0
	for i, r := range results {
		all[i] = seriesOf(r, from, to)
		for _, waited := range all[i].waited {
			most = max(most, waited)
		}
	}
	height := len(results)*2*(panel+gap) + gap
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", columns+leftMargin+20, height)
	fmt.Fprintf(out, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	y := gap
	for i, r := range results {
		name, f := html.EscapeString(r.Policy), r.Figures()
		drawPanel(out, y, all[i].used, float64(r.Processors), "#3b6ea5", fmt.Sprintf("%s: processors in use, of %d (%.1f %%)", name, r.Processors, 100*f.Utilization))
		y += panel + gap
		drawPanel(out, y, all[i].waited, most, "#c0504d", fmt.Sprintf("%s: processors that are waited for (mean wait %.0f s)", name, f.MeanWaitS))
		y += panel + gap
	}
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="end">%.1f days</text>`+"\n</svg>\n", leftMargin+columns, height-6, float64(to-from)/86400)
}

func seriesOf(r *sim.Result, from, to int64) series {
	s := series{make([]float64, columns), make([]float64, columns)}
	for i := range r.Jobs {
		o := &r.Jobs[i]
		add(s.used, o.StartS-from, o.StartS+o.RunS-from, to-from, float64(o.Processors))
		add(s.waited, o.SubmitS-from, o.StartS-from, to-from, float64(o.Processors))
	}
	return s
}

// add adds an amount from one time to another to the means of the columns.
func add(means []float64, from, to, span int64, amount float64) {
	scale := float64(len(means)) / float64(max(span, 1))
	begin, end := float64(from)*scale, float64(to)*scale
	for column := int(begin); column < len(means) && float64(column) < end; column++ {
		means[column] += amount * (min(end, float64(column+1)) - max(begin, float64(column)))
	}
}

func drawPanel(out io.Writer, y int, values []float64, most float64, colour, title string) {
	fmt.Fprintf(out, `<text x="%d" y="%d">%s</text>`+"\n", leftMargin, y-6, title)
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="end">%.0f</text><text x="%d" y="%d" text-anchor="end">0</text>`+"\n", leftMargin-6, y+10, most, leftMargin-6, y+panel)
	fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" fill="#f4f4f4"/>`+"\n", leftMargin, y, columns, panel)
	fmt.Fprintf(out, `<path fill="%s" d="M%d %d`, colour, leftMargin, y+panel)
	for i, value := range values {
		top := float64(y+panel) - min(value/most, 1)*panel
		fmt.Fprintf(out, "L%d %.1fL%d %.1f", leftMargin+i, top, leftMargin+i+1, top)
	}
	fmt.Fprintf(out, `L%d %dZ"/>`+"\n", leftMargin+columns, y+panel)
}
