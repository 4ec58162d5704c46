package slurmconf

import (
	"fmt"
	"strings"
)

// network takes a switch of topology.conf.
func (c *converter) network(line *Line) error {
	if line.first() != "switchname" {
		c.drop(line.Place, line.Settings[0].Key, "has no counterpart")
		return nil
	}
	name := line.Settings[0].Value
	text := "[[switch]]\nname = " + quoted(name) + "\n"
	for _, s := range line.Settings[1:] {
		switch strings.ToLower(s.Key) {
		case "nodes", "switches":
			// Lists that cannot be read are listed with what is wrong, further down.
			if _, err := c.names(s.Value); err != nil && c.named > maxNamed {
				return fmt.Errorf("%s: %w: %w", line.Place, ErrSyntax, err)
			}
		}
		switch strings.ToLower(s.Key) {
		case "nodes":
			text += "nodes = " + quoted(s.Value) + "\n"
		case "switches":
			text += "switches = " + quoted(s.Value) + "\n"
		default:
			c.drop(line.Place, "SwitchName="+name+" "+s.Key, "has no counterpart")
		}
	}
	c.takeTable(said{line.Place, "SwitchName", name}, text)
	return nil
}
