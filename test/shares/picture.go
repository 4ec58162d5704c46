package main

import (
	"fmt"
	"io"
	"strings"
)

// The picture, in pixels: two panels, one above the other.
const (
	wide, tall     = 960, 610
	left, right    = 70, 930
	useTop         = 80 // of the panel of GPUs in use
	useBottom      = 290
	partTop        = 350 // of the panel of parts
	partBottom     = 560
	nameSize       = 14
	physicsColor   = "#1f6fb4"
	chemistryColor = "#e08a2e"
)

// draw writes the samples as SVG: above, the GPUs that each lab has in use;
// below, its part of what both have used, beside its share.
func draw(w io.Writer, samples []sample) error {
	hours := float64(samples[len(samples)-1].atMS) / float64(hour)
	x := func(ms int64) float64 { return left + float64(right-left)*float64(ms)/float64(hour)/hours }
	use := func(gpus int) float64 {
		return useBottom - float64(useBottom-useTop)*float64(gpus)/(nodes*gpusPerNode)
	}
	part := func(p float64) float64 { return partBottom - float64(partBottom-partTop)*p }
	var b strings.Builder
	text := func(x, y float64, anchor, color, words string) {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", x, y, anchor, color, words)
	}
	line := func(x1, y1, x2, y2 float64, style string) {
		fmt.Fprintf(&b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2, style)
	}
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"%d\">\n", wide, tall, wide, tall, nameSize)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", wide, tall)
	text(left, 34, "start", "black", fmt.Sprintf("Two labs submit %d jobs each to %d GPUs; %s has %d shares, %s %d", jobsEach, nodes*gpusPerNode, labs[0].name, labs[0].shares, labs[1].name, labs[1].shares))

	// GPUs in use, one lab on top of the other.
	below, above := []string{}, []string{}
	for i := range samples {
		s := &samples[i]
		below = append(below, fmt.Sprintf("%.1f,%.1f", x(s.atMS), use(s.gpus[0])))
		above = append(above, fmt.Sprintf("%.1f,%.1f", x(s.atMS), use(s.gpus[0]+s.gpus[1])))
	}
	area := func(points []string, color string) {
		fmt.Fprintf(&b, "<polygon points=\"%d,%d %s %d,%d\" fill=\"%s\"/>\n", left, useBottom, strings.Join(points, " "), right, useBottom, color)
	}
	area(above, chemistryColor)
	area(below, physicsColor)
	text(left, useTop-8, "start", "black", "GPUs in use by")
	text(left+110, useTop-8, "start", physicsColor, labs[0].name)
	text(left+175, useTop-8, "start", chemistryColor, labs[1].name)

	// The part of each lab of what both have used.
	for i := range labs {
		color := []string{physicsColor, chemistryColor}[i]
		var points []string
		for s := range samples {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(samples[s].atMS), part(samples[s].part(i))))
		}
		fmt.Fprintf(&b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\"/>\n", strings.Join(points, " "), color)
		share := float64(labs[i].shares) / float64(labs[0].shares+labs[1].shares)
		line(left, part(share), right, part(share), "stroke=\""+color+"\" stroke-dasharray=\"6 5\"")
		text(left+8, part(share)-6, "start", color, fmt.Sprintf("share %.0f %%", 100*share))
	}
	text(left, partTop-8, "start", "black", fmt.Sprintf("part of what both have used (half of it is forgotten in %d hours)", halfLife/3600))

	for _, axis := range []struct{ top, bottom float64 }{{useTop, useBottom}, {partTop, partBottom}} {
		line(left, axis.top, left, axis.bottom, "stroke=\"black\"")
		line(left, axis.bottom, right, axis.bottom, "stroke=\"black\"")
		for h := 0; float64(h) <= hours; h += 12 {
			at := x(int64(h) * hour)
			line(at, axis.bottom, at, axis.bottom+5, "stroke=\"black\"")
			text(at, axis.bottom+20, "middle", "black", fmt.Sprintf("%d h", h))
		}
	}
	for _, tick := range []float64{0, 0.5, 1} {
		text(left-8, part(tick)+5, "end", "black", fmt.Sprintf("%.0f %%", 100*tick))
		text(left-8, use(int(tick*nodes*gpusPerNode))+5, "end", "black", fmt.Sprint(int(tick*nodes*gpusPerNode)))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
