package main

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// The picture, in pixels: two panels, one above the other.
const (
	wide, tall  = 960, 610
	left, right = 70, 930
	useTop      = 80 // of the panel of GPUs in use
	useBottom   = 290
	partTop     = 350 // of the panel of parts
	partBottom  = 560
	nameSize    = 14
	firstColor  = "#1f6fb4"
	secondColor = "#e08a2e"
)

// draw writes the show as SVG: above, the GPUs that each lab has in use; below,
// its fraction of what both have used, and its share, on grey where both have
// jobs waiting.
func draw(w io.Writer, s *show) error {
	samples := s.samples
	end := max(samples[len(samples)-1].atMS, 1)
	x := func(ms int64) float64 { return left + float64(right-left)*float64(ms)/float64(end) }
	use := func(gpus int) float64 {
		return useBottom - float64(useBottom-useTop)*float64(gpus)/float64(max(s.gpus, 1))
	}
	part := func(p float64) float64 { return partBottom - float64(partBottom-partTop)*p }
	var b strings.Builder
	text := func(x, y float64, anchor, color, words string) {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", x, y, anchor, color, html.EscapeString(words))
	}
	line := func(x1, y1, x2, y2 float64, style string) {
		fmt.Fprintf(&b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2, style)
	}
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"%d\">\n", wide, tall, wide, tall, nameSize)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", wide, tall)
	text(left, 24, "start", "black", fmt.Sprintf("%s: %d shares, %d jobs; %s: %d shares, %d jobs; %d GPUs", s.labs[0].name, s.labs[0].shares, s.jobs[0], s.labs[1].name, s.labs[1].shares, s.jobs[1], s.gpus))
	text(left, 44, "start", "dimgrey", s.source)
	if first, last, err := s.contended(); err == nil {
		from, to := x(samples[first].atMS), x(samples[last].atMS)
		fmt.Fprintf(&b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#eeeeee\"/>\n", from, partTop, to-from, partBottom-partTop)
	}

	// GPUs in use, one lab on top of the other.
	below, above := []string{}, []string{}
	for i := range samples {
		at := &samples[i]
		below = append(below, fmt.Sprintf("%.1f,%.1f", x(at.atMS), use(at.gpus[0])))
		above = append(above, fmt.Sprintf("%.1f,%.1f", x(at.atMS), use(at.gpus[0]+at.gpus[1])))
	}
	area := func(points []string, color string) {
		fmt.Fprintf(&b, "<polygon points=\"%d,%d %s %d,%d\" fill=\"%s\"/>\n", left, useBottom, strings.Join(points, " "), right, useBottom, color)
	}
	area(above, secondColor)
	area(below, firstColor)
	text(left, useTop-8, "start", "black", "GPUs in use by")
	text(left+110, useTop-8, "start", firstColor, s.labs[0].name)
	text(left+175, useTop-8, "start", secondColor, s.labs[1].name)

	// The part of each lab of what both have used.
	for i := range s.labs {
		color := []string{firstColor, secondColor}[i]
		var points []string
		for at := range samples {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(samples[at].atMS), part(samples[at].part(i))))
		}
		fmt.Fprintf(&b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\"/>\n", strings.Join(points, " "), color)
		share := s.share(i)
		line(left, part(share), right, part(share), "stroke=\""+color+"\" stroke-dasharray=\"6 5\"")
		text(left+8, part(share)-6, "start", color, fmt.Sprintf("share %.0f %%", 100*share))
	}
	text(left, partTop-8, "start", "black", fmt.Sprintf("part of what both have used; half of it is forgotten in %d %s; grey: both have jobs waiting", s.halfLifeS*1000/s.unitMS, s.unit))

	for _, axis := range []struct{ top, bottom float64 }{{useTop, useBottom}, {partTop, partBottom}} {
		line(left, axis.top, left, axis.bottom, "stroke=\"black\"")
		line(left, axis.bottom, right, axis.bottom, "stroke=\"black\"")
		for mark := int64(0); mark*s.unitMS <= end; mark += s.every {
			at := x(mark * s.unitMS)
			line(at, axis.bottom, at, axis.bottom+5, "stroke=\"black\"")
			text(at, axis.bottom+20, "middle", "black", fmt.Sprintf("%d %s", mark, s.unit))
		}
	}
	for _, tick := range []float64{0, 0.5, 1} {
		text(left-8, part(tick)+5, "end", "black", fmt.Sprintf("%.0f %%", 100*tick))
		gpus := int(tick * float64(s.gpus))
		text(left-8, use(gpus)+5, "end", "black", fmt.Sprint(gpus))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
