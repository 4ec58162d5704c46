package slurmconf

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clusterfile"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// partitionKeys are the keys of a partition with a counterpart, and what each takes.
var partitionKeys = map[string]struct{ key, takes string }{
	"default": {"default", "yes"}, "maxtime": {"max_time", "text"}, "defaulttime": {"default_time", "text"},
	"prioritytier": {"priority_tier", "number"}, "priorityjobfactor": {"priority_job_factor", "number"}, "allowgroups": {"allow_groups", "list"},
	"allowaccounts": {"allow_accounts", "list"}, "allowqos": {"allow_qos", "list"}, "qos": {"qos", "text"}, "tresbillingweights": {"tres_billing_weights", "text"},
	"defmempercpu": {"def_mem_per_cpu", "memory"}, "defmempergpu": {"def_mem_per_gpu", "memory"}, "preemptmode": {"preempt_mode", "lower"}, "gracetime": {"grace_time", "number"},
}

// without are values that say what is so anyway.
var meansNothing = map[string]string{
	"allowgroups": "ALL", "allowaccounts": "ALL", "allowqos": "ALL", "hidden": "NO", "rootonly": "NO", "oversubscribe": "NO", "lln": "NO", "disablerootjobs": "YES",
	"exclusiveuser": "NO", "reqresv": "NO", "allocnodes": "ALL", "maxnodes": "UNLIMITED", "minnodes": "1", "maxcpuspernode": "UNLIMITED", "powerdownonidle": "NO",
}

// partitionLine takes a partition, or what all that follow have.
func (c *converter) partitionLine(line *Line) error {
	name, settings := line.Settings[0].Value, c.with("partition", line)
	if strings.EqualFold(name, "DEFAULT") {
		c.defaults["partition"] = settings
		return nil
	}
	if name == "" {
		return fmt.Errorf("%s: %w: PartitionName needs a name", line.Place, ErrSyntax)
	}
	for _, had := range c.partitions {
		if had == name {
			return fmt.Errorf("%s: %w: partition %.80q is there already", line.Place, ErrSyntax, name)
		}
	}
	c.partitions = append(c.partitions, name)
	nodes, err := c.nodesOf(settings["nodes"])
	if err != nil {
		return fmt.Errorf("%s: %w: Nodes: %w", line.Place, ErrSyntax, err)
	}
	head := "[[partition]]\nname = " + quoted(name) + "\nnodes = " + quoted(nodes) + "\n"
	if _, err := clusterfile.Parse([]byte(head)); err != nil {
		return fmt.Errorf("%s: %w: %w", line.Place, ErrSyntax, err)
	}
	text := head
	for _, key := range keysOf(settings) {
		if setting, why := partitionSetting(key, settings[key]); why != "" {
			c.drop(settings[key].Place, "PartitionName="+name+" "+settings[key].key, why)
		} else if setting != "" {
			if _, err := clusterfile.Parse([]byte(head + setting)); err != nil {
				c.drop(settings[key].Place, "PartitionName="+name+" "+settings[key].key, err.Error())
				continue
			}
			text += setting
		}
	}
	c.tables = append(c.tables, text)
	return nil
}

// partitionSetting is a setting as cluster.toml has it; why: it has none.
func partitionSetting(key string, s said) (text, why string) {
	if strings.EqualFold(meansNothing[key], s.value) && s.value != "" {
		return "", ""
	}
	if to, known := partitionKeys[key]; known {
		value := valueOf(to.takes, s.value)
		if to.takes == "lower" {
			value = quoted(strings.ToLower(s.value))
		}
		return to.key + " = " + value + "\n", ""
	}
	switch key {
	case "nodes":
		return "", ""
	case "state":
		switch strings.ToUpper(s.value) {
		case "UP":
			return "", ""
		case "DOWN", "INACTIVE", "DRAIN":
			return "state = \"down\"\n", ""
		}
	case "exclusiveuser":
		return "exclusive = \"user\"\n", ""
	case "oversubscribe", "shared":
		if strings.EqualFold(s.value, "EXCLUSIVE") {
			return "exclusive = \"node\"\n", ""
		}
		return "", "CPUs are never shared: nodes are, by jobs that hold different ones"
	case "disablerootjobs":
		return "allow_root_jobs = true\n", ""
	case "maxnodes", "minnodes", "maxcpuspernode", "maxmempernode", "maxmempercpu":
		return "", "give the partition a QOS with that limit: gacctmgr add qos, and qos = in cluster.toml"
	case "denyaccounts", "denyqos", "denygroups":
		return "", "name those that are allowed"
	}
	return "", "has no counterpart"
}

// nodesOf are the nodes of a partition, with sets of nodes put in.
func (c *converter) nodesOf(s said) (string, error) {
	if s.value == "" || strings.EqualFold(s.value, "ALL") {
		return "ALL", nil
	}
	words, err := c.names(s.value)
	if err != nil {
		return "", err
	}
	var names []string
	for _, word := range words {
		if set, known := c.sets[word]; known {
			if strings.EqualFold(set, "ALL") {
				return "ALL", nil
			}
			within, err := c.names(set)
			if err != nil {
				return "", err
			}
			names = append(names, within...)
			continue
		}
		names = append(names, word)
	}
	return spec.FormatHostList(names), nil
}

// nodeSet notes a set of nodes, by names or by a feature.
func (c *converter) nodeSet(line *Line) error {
	name, nodes := line.Settings[0].Value, ""
	for _, s := range line.Settings[1:] {
		switch strings.ToLower(s.Key) {
		case "nodes":
			nodes = s.Value
		case "feature":
			c.drop(line.Place, "NodeSet="+name+" Feature", "name its nodes: sets by feature are not known")
		}
	}
	if name == "" {
		return fmt.Errorf("%s: %w: NodeSet needs a name", line.Place, ErrSyntax)
	}
	if nodes != "" {
		c.sets[name] = nodes
	}
	return nil
}
