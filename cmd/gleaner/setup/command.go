// Package setup makes this host a cluster of one: it writes the configuration that is
// missing, starts the daemons as services, and puts the first policy in force.
//
// It may be typed again: what is there stays, files are never overwritten, and a policy in
// force is left alone. Each step has a deadline, and what fails says what to do.
package setup

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Command is the table of gleaner setup.
func Command() *option.Command {
	return &option.Command{
		Name: "setup", Summary: "make a cluster of this host: a controller and a node, as services", Usage: "[options]",
		Description: []string{
			"gleaner setup enables and starts gctld and gnoded on this host, puts the policy of /etc/gleaner/cluster.toml in force, and waits until the node takes jobs. The users of this host need nothing more. docs/install.md says how other nodes and login hosts join.",
			"Files that are there are used as they are; those that are missing are written. A policy that is in force already stays. So it may be typed again, and goes on where it could not before.",
			"It needs root, and systemd, which runs the daemons.",
		},
		Options: []option.Option{
			{Long: "dry-run", Help: "say what would be done, and do nothing"},
		},
		Run: runSetup,
		Examples: []option.Example{
			{Text: "After the packages were installed", Command: "sudo gleaner setup"},
			{Text: "What it would do", Command: "gleaner setup --dry-run"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "the node takes jobs"}, {Status: "1", Help: "a step failed; what was done before stays"}},
		SeeAlso:    []string{"gdoctor", "gcontrol", "ginfo"},
	}
}
