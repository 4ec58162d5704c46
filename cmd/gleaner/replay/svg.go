package replay

import (
	"fmt"
	"html"
	"io"
	"math"

	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// The picture has two panels over one axis of time: what is in use, and what is waited
// for. Each replay is a line of its colour in both.
const (
	columns   = 800
	panel     = 190
	marginX   = 76
	marginTop = 24
	legendRow = 20
	gap       = 52
)

var colours = []string{"#1f5a96", "#c8442c", "#2f8a4e", "#8a55a8", "#b0851a", "#555555"}

// MaxDrawn is how many replays one picture can show.
const MaxDrawn = 6

// Draw draws what is in use and what is waited for; unit is what the processors are.
func Draw(out io.Writer, results []*sim.Result, unit string) {
	fromS, toS := results[0].Use[0].AtS, int64(0)
	for _, r := range results {
		toS = max(toS, r.Use[len(r.Use)-1].AtS)
	}
	toS = max(toS, fromS+1)
	top := marginTop + legendRow*len(results) + 14
	height := top + 2*panel + gap + 52
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n", columns+marginX+24, height)
	fmt.Fprintf(out, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	for i, r := range results {
		f := r.Figures()
		y := marginTop + legendRow*i
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="18" height="4" fill="%s"/>`, marginX, y-6, colours[i%len(colours)])
		fmt.Fprintf(out, `<text x="%d" y="%d">%s: %.1f %% in use until the last submission, mean wait %s</text>`+"\n", marginX+26, y, html.EscapeString(r.Policy), 100*r.InUse(), span(f.MeanWaitS))
	}
	most := 1.0
	used, waitFor := make([][]float64, len(results)), make([][]float64, len(results))
	for i, r := range results {
		used[i], waitFor[i] = means(r.Use, fromS, toS)
		for _, value := range waitFor[i] {
			most = max(most, value)
		}
	}
	drawPanel(out, top, used, float64(results[0].Processors), unit+" in use")
	drawPanel(out, top+panel+gap, waitFor, most, unit+" waited for")
	drawTime(out, top+2*panel+gap, float64(toS-fromS))
	fmt.Fprintln(out, "</svg>")
}

// means are the means over the columns of the picture.
func means(use []sim.Use, fromS, toS int64) (used, waitFor []float64) {
	used, waitFor = make([]float64, columns), make([]float64, columns)
	scale := float64(columns) / float64(toS-fromS)
	for i, u := range use {
		endS := toS
		if i+1 < len(use) {
			endS = use[i+1].AtS
		}
		begin, end := float64(u.AtS-fromS)*scale, float64(endS-fromS)*scale
		for column := int(begin); column < columns && float64(column) < end; column++ {
			part := min(end, float64(column+1)) - max(begin, float64(column))
			used[column] += part * float64(u.Used)
			waitFor[column] += part * float64(u.WaitFor)
		}
	}
	return used, waitFor
}

func drawPanel(out io.Writer, y int, all [][]float64, most float64, title string) {
	step := niceStep(most, 4)
	limit := math.Ceil(most/step) * step
	at := func(value float64) float64 { return float64(y+panel) - value/limit*panel }
	fmt.Fprintf(out, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", marginX, y-8, html.EscapeString(title))
	for value := 0.0; value <= limit+step/2; value += step {
		fmt.Fprintf(out, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#dddddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n", marginX, marginX+columns, at(value), at(value), marginX-8, at(value)+4, value)
	}
	for i, values := range all {
		fmt.Fprintf(out, `<path fill="none" stroke="%s" stroke-width="1.3" d="M%d %.1f`, colours[i%len(colours)], marginX, at(values[0]))
		for column, value := range values {
			fmt.Fprintf(out, "L%d %.1f", marginX+column+1, at(min(value, limit)))
		}
		fmt.Fprintf(out, `"/>`+"\n")
	}
}

// units of the axis of time, the longest first.
var units = []struct {
	name    string
	seconds float64
}{{"days", 86400}, {"hours", 3600}, {"minutes", 60}, {"seconds", 1}}

// unitOf is the longest unit of which a span has two.
func unitOf(seconds float64) (name string, length float64) {
	for _, u := range units {
		if seconds >= 2*u.seconds {
			return u.name, u.seconds
		}
	}
	return "seconds", 1
}

func span(seconds float64) string {
	name, length := unitOf(seconds)
	return fmt.Sprintf("%.1f %s", seconds/length, name)
}

func drawTime(out io.Writer, y int, seconds float64) {
	name, length := unitOf(seconds)
	all := seconds / length
	step := niceStep(all, 10)
	for value := 0.0; value <= all; value += step {
		x := marginX + value/all*columns
		fmt.Fprintf(out, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#888888"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", x, x, y, y+5, x, y+20, value)
	}
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="middle">%s since the first submission</text>`+"\n", marginX+columns/2, y+40, name)
}

// niceStep is 1, 2 or 5 times a power of ten, of which about so many make the whole.
func niceStep(most float64, parts int) float64 {
	rough := most / float64(parts)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, times := range []float64{1, 2, 5} {
		if times*power >= rough {
			return max(times*power, 1)
		}
	}
	return max(10*power, 1)
}
