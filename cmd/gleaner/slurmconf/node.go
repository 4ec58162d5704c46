package slurmconf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// node is a line of nodes.
type node struct {
	hosts    []string
	settings map[string]said
}

// with are the settings of a line over those that all of its kind have, by key in lower
// case.
func (c *converter) with(kind string, line *Line) map[string]said {
	settings := maps.Clone(c.defaults[kind])
	if settings == nil {
		settings = map[string]said{}
	}
	for _, s := range line.Settings[1:] {
		settings[strings.ToLower(s.Key)] = said{line.Place, s.Key, s.Value}
	}
	return settings
}

func keysOf(settings map[string]said) []string { return slices.Sorted(maps.Keys(settings)) }

// nodeLine takes nodes, or what all that follow have.
func (c *converter) nodeLine(line *Line) error {
	settings := c.with("node", line)
	if strings.EqualFold(line.Settings[0].Value, "DEFAULT") {
		c.defaults["node"] = settings
		return nil
	}
	hosts, err := spec.ParseHostList(line.Settings[0].Value)
	if err != nil || len(hosts) == 0 {
		return fmt.Errorf("%s: %w: NodeName=%.80s: give a host list such as n[1-4]: %w", line.Place, ErrSyntax, line.Settings[0].Value, orNothing(err))
	}
	for _, key := range keysOf(settings) {
		if why := nodeLeft(key, settings[key].value); why != "" {
			c.drop(settings[key].Place, "NodeName="+line.Settings[0].Value+" "+settings[key].key, why)
		}
	}
	for _, key := range []string{"cpus", "realmemory", "tmpdisk"} {
		if s, given := settings[key]; given {
			if _, err := strconv.ParseUint(s.value, 10, 40); err != nil {
				return fmt.Errorf("%s: %w: %s=%.80s is no number", s.Place, ErrSyntax, s.key, s.value)
			}
		}
	}
	if c.hosts += len(hosts); c.hosts > maxHosts {
		return fmt.Errorf("%s: %w: more than %d nodes", line.Place, ErrSyntax, maxHosts)
	}
	c.nodes = append(c.nodes, node{hosts, settings})
	return nil
}

func orNothing(err error) error {
	if err == nil {
		return fmt.Errorf("it is empty")
	}
	return err
}

// nodeLeft says why a setting of nodes is not carried over; "" = it is, or need not be.
func nodeLeft(key, value string) string {
	switch key {
	case "cpus", "realmemory", "feature", "features", "gres", "nodeaddr", "tmpdisk",
		"boards", "sockets", "socketsperboard", "corespersocket", "threadspercore", "procs":
		return ""
	case "state":
		switch strings.ToUpper(value) {
		case "UNKNOWN", "IDLE":
			return ""
		case "CLOUD", "FUTURE":
			return "nodes are not switched on and off: they appear when they register"
		}
		return "gcontrol update NodeName=… State=… says it"
	case "nodehostname":
		return "name = in gnoded.toml, if it is not that of the host"
	case "weight":
		return "nodes have no weights"
	case "corespeccount", "cpuspeclist", "memspeclimit":
		return "cpus and memory in gnoded.toml say what jobs may have"
	}
	return "has no counterpart"
}

// nodeFiles are the configurations, one for nodes that are alike.
func (c *converter) nodeFiles() []NodeFile {
	var texts []string
	hosts, made := map[string][]string{}, map[string]string{}
	for i := range c.nodes {
		for _, host := range c.nodes[i].hosts {
			alike := fmt.Sprint(i, c.gres.linesOf(host))
			text, known := made[alike]
			if !known {
				text = c.nodeFile(&c.nodes[i], host)
				made[alike] = text
			}
			if hosts[text] == nil {
				texts = append(texts, text)
			}
			hosts[text] = append(hosts[text], host)
		}
	}
	var files []NodeFile
	for _, text := range texts {
		files = append(files, NodeFile{spec.FormatHostList(hosts[text]), text})
	}
	return files
}

// nodeFile is the gnoded.toml of a host. Its name is that of the host, so that those of
// nodes that are alike are the same.
func (c *converter) nodeFile(n *node, host string) string {
	var out strings.Builder
	out.WriteString("controllers = [\"CONTROLLER:6817\"] # the host of gctld\ntls_dir = \"/etc/gleaner/tls\"\n")
	if s, given := n.settings["cpus"]; given {
		fmt.Fprintf(&out, "cpus = %s\n", trimZeros(s.value))
	}
	if s, given := n.settings["realmemory"]; given {
		fmt.Fprintf(&out, "memory = \"%sM\"\n", trimZeros(s.value))
	}
	if s, given := n.settings["tmpdisk"]; given && trimZeros(s.value) != "0" {
		fmt.Fprintf(&out, "tmp_disk = \"%sM\"\n", trimZeros(s.value))
	}
	for _, key := range []string{"features", "feature"} {
		if s, given := n.settings[key]; given {
			fmt.Fprintf(&out, "features = %s\n", list(s.value))
			break
		}
	}
	if s, given := n.settings["nodeaddr"]; given && len(n.hosts) == 1 && s.value != host {
		fmt.Fprintf(&out, "address = %s\n", quoted(s.value))
	}
	for _, gpu := range c.gres.of(host) {
		fmt.Fprintf(&out, "\n[[gpu]]\nid = \"gpu%d\"\nmodel = %s\npath = %s\n", gpu.index, quoted(gpu.model), quoted(gpu.path))
	}
	return out.String()
}

func trimZeros(number string) string {
	if trimmed := strings.TrimLeft(number, "0"); trimmed != "" {
		return trimmed
	}
	return "0"
}
