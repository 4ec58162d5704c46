package slurmconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clusterfile"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Left is something that could not be carried over.
type Left struct {
	Place
	What, Why string
}

// NodeFile is the gnoded.toml of nodes that are alike.
type NodeFile struct {
	Hosts string // host list
	Text  string
}

// Result is what files of Slurm mean.
type Result struct {
	Cluster string // cluster.toml
	Nodes   []NodeFile
	Left    []Left
}

// converter gathers the parts of cluster.toml.
type converter struct {
	top, priority, preempt, scheduler, weights []string
	enforce                                    string
	tables                                     []string // [[partition]] and others
	partitions                                 []string // names
	nodes                                      []node
	hosts                                      int               // of nodes, in all
	named                                      int               // names in host lists of partitions and switches
	sets                                       map[string]string // NodeSet: its nodes
	defaults                                   map[string]map[string]said
	gres                                       gres
	left                                       []Left
}

// said is a value and where it is said.
type said struct {
	Place
	key, value string
}

// Convert makes the configuration of the lines of slurm.conf, gres.conf and topology.conf;
// the last two may be nil.
func Convert(conf, gresConf, topology []Line) (*Result, error) {
	c := &converter{sets: map[string]string{}, defaults: map[string]map[string]said{}}
	if err := c.gres.read(gresConf); err != nil {
		return nil, err
	}
	for i := range conf {
		if conf[i].first() == "nodeset" {
			if err := c.nodeSet(&conf[i]); err != nil {
				return nil, err
			}
		}
	}
	for i := range conf {
		if err := c.line(&conf[i]); err != nil {
			return nil, err
		}
	}
	for i := range topology {
		if err := c.network(&topology[i]); err != nil {
			return nil, err
		}
	}
	if c.hosts*len(c.gres.ofAll) > maxNamed {
		return nil, fmt.Errorf("gres.conf: %w: %d lines are about each of %d nodes: name nodes in them (NodeName=)", ErrSyntax, len(c.gres.ofAll), c.hosts)
	}
	if len(c.partitions) == 0 {
		c.tables = append(c.tables, "[[partition]]\nname = \"main\"\nnodes = \"ALL\"\ndefault = true\n")
	}
	result := &Result{Cluster: c.cluster(), Nodes: c.nodeFiles(), Left: c.left}
	slices.SortStableFunc(result.Left, func(a, b Left) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return a.Line - b.Line
	})
	if _, err := clusterfile.Parse([]byte(result.Cluster)); err != nil {
		return nil, fmt.Errorf("these files together make no policy: %w", err)
	}
	return result, nil
}

func (c *converter) line(line *Line) error {
	switch line.first() {
	case "nodename":
		return c.nodeLine(line)
	case "partitionname":
		return c.partitionLine(line)
	case "nodeset":
		return nil
	case "switchname":
		return c.network(line)
	case "downnodes", "frontendname":
		c.drop(line.Place, line.Settings[0].Key, "the state of nodes is not configured: gcontrol update NodeName=… State=… says it")
		return nil
	}
	for _, s := range line.Settings {
		c.global(said{line.Place, s.Key, s.Value})
	}
	return nil
}

// names writes a host list out, as long as all of them together are not too long.
func (c *converter) names(list string) ([]string, error) {
	names, err := spec.ParseHostList(list)
	if err != nil {
		return nil, err
	}
	if c.named += len(names); c.named > maxNamed {
		return nil, fmt.Errorf("partitions and switches name more than %d nodes in all: name fewer, or a NodeSet", maxNamed)
	}
	return names, nil
}

func (c *converter) drop(at Place, what, why string) {
	c.left = append(c.left, Left{at, what, why})
}

// take adds lines to a part if the reader of cluster.toml takes them, and otherwise lists
// what it says. table is the heading below which they go; "" = none.
func (c *converter) take(part *[]string, table string, s said, lines ...string) {
	text := strings.Join(lines, "\n")
	if table != "" {
		text = "[" + table + "]\n" + text
	}
	if _, err := clusterfile.Parse([]byte(text + "\n" + onePartition)); err != nil {
		c.drop(s.Place, s.key+"="+s.value, err.Error())
		return
	}
	for _, line := range lines {
		key, _, _ := strings.Cut(line, " = ")
		*part = slices.DeleteFunc(*part, func(had string) bool { return strings.HasPrefix(had, key+" = ") })
		*part = append(*part, line)
	}
}

// takeTable adds a [[table]] under the same condition.
func (c *converter) takeTable(s said, text string) {
	if _, err := clusterfile.Parse([]byte(onePartition + text)); err != nil {
		c.drop(s.Place, s.key+"="+s.value, err.Error())
		return
	}
	c.tables = append(c.tables, text)
}

// onePartition makes a policy of a part of one.
const onePartition = "[[partition]]\nname = \"x\"\nnodes = \"ALL\"\ndefault = true\n"

// cluster is cluster.toml as a whole.
func (c *converter) cluster() string {
	var out strings.Builder
	for _, line := range c.top {
		out.WriteString(line + "\n")
	}
	if c.enforce != "" {
		c.section(&out, "accounting", []string{"enforce = " + list(c.enforce)})
	}
	c.section(&out, "priority", c.priority)
	c.section(&out, "priority.weight_tres", c.weights)
	c.section(&out, "preempt", c.preempt)
	c.section(&out, "scheduler", c.scheduler)
	for _, table := range c.tables {
		out.WriteString("\n" + table)
	}
	return out.String()
}

func (c *converter) section(out *strings.Builder, name string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(out, "\n[%s]\n%s\n", name, strings.Join(lines, "\n"))
	}
}
