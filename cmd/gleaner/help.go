package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// writeOverview is what "gleaner" and "gleaner --help" print: every command by
// the name it is typed, and what to type first.
func writeOverview(w io.Writer) error {
	var text strings.Builder
	text.WriteString("gleaner - a batch scheduler for GPUs that have owners\n\nCommands:\n")
	for _, command := range commands() {
		if command.Hidden {
			continue
		}
		summary := command.Summary
		if command.Alias != "" {
			summary += " (as Slurm's " + command.Alias + ")"
		}
		fmt.Fprintf(&text, "  %-20s%s\n", command.Program(), summary)
	}
	text.WriteString(`
Every command explains itself: "gsubmit --help", "gleaner help submit", or at
length "gleaner man submit | man -l -". gsubmit is the same as gleaner submit.

To look around:
  ginfo                                  partitions, nodes, free GPUs
  gsubmit --wrap='hostname; id'          a job; its output is slurm-NUMBER.out
  gsubmit --gpus=1 --wrap='env'          one with a GPU; CUDA_VISIBLE_DEVICES names it
  gqueue --me                            your jobs
  gcontrol show job NUMBER               all about one
  gcancel NUMBER                         end it
A lab's own node, back from its guests:
  greclaim n1 --within=60s               park them; grelease n1 lends it again
  glend                                  on what terms you lend your nodes
No cluster at hand? As root, one on this machine:
  gleaner dev --dir=/var/tmp/gleaner
`)
	_, err := io.WriteString(w, text.String())
	return err
}

// help answers "gleaner help [command]", where the command may also be called
// by its program's name or by that of Slurm's.
func help(words []string, w io.Writer) error {
	if len(words) == 0 {
		return writeOverview(w)
	}
	for _, command := range commands() {
		if words[0] == command.Name || words[0] == command.Program() || command.Alias != "" && words[0] == command.Alias {
			return command.WriteHelp(w)
		}
	}
	return unknownCommand(words[0])
}

// answer prints what the program says about itself. It returns false if the
// first argument asks for nothing of the kind.
func answer(args []string, streams option.Streams) (bool, error) {
	if len(args) == 0 {
		return true, writeOverview(streams.Stdout)
	}
	switch args[0] {
	case "help", "--help", "-h":
		return true, help(args[1:], streams.Stdout)
	case "version", "--version", "-V", "-v":
		_, err := io.WriteString(streams.Stdout, "gleaner "+version+"\n")
		return true, err
	}
	return false, nil
}
