package slurmconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxGPUs bounds those of one line.
const maxGPUs = 1024

// gres is gres.conf: the GPUs that are named there. Those that the driver finds
// (AutoDetect=nvml) gnoded finds too.
type gres struct {
	lines  []gresLine
	ofAll  []int            // of the lines, those about all nodes
	byHost map[string][]int // and those about one
	names  int              // of hosts, in all
}

type gresLine struct {
	model string
	paths []string
}

// gpu is one GPU of a host.
type gpu struct {
	index       int
	model, path string
}

func (g *gres) read(lines []Line) error {
	for i := range lines {
		values := map[string]string{}
		for _, s := range lines[i].Settings {
			values[strings.ToLower(s.Key)] = s.Value
		}
		if !strings.EqualFold(values["name"], "gpu") || values["file"] == "" {
			continue // found by the driver, or nothing that gnoded knows
		}
		one := gresLine{model: strings.ToLower(values["type"])}
		if one.model == "" {
			one.model = "gpu"
		}
		var err error
		if one.paths, err = pathsOf(values["file"]); err != nil || len(one.paths) > maxGPUs {
			return fmt.Errorf("%s: %w: File=%.80s: give paths such as /dev/nvidia[0-3]: %w", lines[i].Place, ErrSyntax, values["file"], orNothing(err))
		}
		if err := g.note(values["nodename"], len(g.lines)); err != nil {
			return fmt.Errorf("%s: %w: NodeName=%.80s: %w", lines[i].Place, ErrSyntax, values["nodename"], err)
		}
		g.lines = append(g.lines, one)
	}
	return nil
}

// note notes which nodes a line is about.
func (g *gres) note(nodes string, line int) error {
	if nodes == "" {
		g.ofAll = append(g.ofAll, line)
		return nil
	}
	hosts, err := spec.ParseHostList(nodes)
	if err != nil {
		return err
	}
	if g.names += len(hosts); g.names > maxHosts {
		return fmt.Errorf("more than %d nodes", maxHosts)
	}
	if g.byHost == nil {
		g.byHost = map[string][]int{}
	}
	for _, host := range hosts {
		g.byHost[host] = append(g.byHost[host], line)
	}
	return nil
}

// linesOf are the lines about a host, in order.
func (g *gres) linesOf(host string) []int {
	lines := slices.Concat(g.ofAll, g.byHost[host])
	slices.Sort(lines)
	return lines
}

// of are the GPUs of a host.
func (g *gres) of(host string) []gpu {
	var found []gpu
	for _, at := range g.linesOf(host) {
		for _, path := range g.lines[at].paths {
			found = append(found, gpu{len(found), g.lines[at].model, path})
		}
	}
	return found
}

// pathsOf expands paths, of which the last names may have brackets as host lists do.
func pathsOf(text string) (paths []string, err error) {
	depth := 0
	words := strings.FieldsFunc(text, func(c rune) bool {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		}
		return c == ',' && depth <= 0
	})
	for _, word := range words {
		at := strings.LastIndex(word, "/") + 1
		names, err := spec.ParseHostList(word[at:])
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			paths = append(paths, word[:at]+name)
		}
		if len(paths) > maxGPUs {
			return nil, fmt.Errorf("more than %d", maxGPUs)
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("there is none")
	}
	return paths, nil
}
