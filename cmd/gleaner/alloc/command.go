package alloc

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/allocation"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

const (
	optKillCommand = "kill-command"
	optNoShell     = "no-shell"
)

// Command is the table of galloc.
func Command() *option.Command {
	return &option.Command{
		Name: "alloc", Alias: "salloc", Summary: "hold nodes while a command or a shell runs", Usage: "[options] [command [arguments...]]",
		Description: []string{
			"galloc gets an allocation of nodes, runs a command on this host, by default a shell, and gives the nodes back when that ends. The command finds the variables of the job, and grun in it starts tasks on the nodes.",
			"The allocation lives as long as galloc: when that has been lost for two minutes (--inactive-limit), the job ends, whatever has become of galloc and its host. With --no-shell it lives until its time is over, or it is cancelled.",
		},
		Operands: []option.Variable{{Name: "command", Help: "a program on this host; $SHELL if none is named"}},
		Options: slices.Concat([]option.Option{
			{Long: optKillCommand, Short: 'K', Argument: "signal", OptionalArgument: true, Help: "send the command this signal, TERM if none is attached, when the allocation is over before it; a shell gets HUP without asking"},
			{Long: optNoShell, Help: "run nothing, and leave as soon as the nodes are there: grun --jobid runs commands in the job, and gcancel ends it"},
			{Long: jobspec.OptTestOnly, Later: "gsubmit --test-only says when a job would start"},
			{Long: "bell", Ignored: "no bell rings"}, {Long: "no-bell", Ignored: "no bell rings"},
			{Long: jobspec.OptQuiet, Short: 'Q', Help: "print nothing but errors"},
			{Long: jobspec.OptVerbose, Short: 'v', Help: "accepted and without effect: what happens is said anyway"},
		}, allocation.Options(), jobspec.AllocationOptions("GALLOC_", "SALLOC_")),
		Often: []string{jobspec.OptNodes, jobspec.OptNtasks, jobspec.OptCPUsPerTask, jobspec.OptMem, jobspec.OptGPUs, jobspec.OptTime, jobspec.OptPartition},
		Examples: []option.Example{
			{Text: "two nodes, and tasks on them one after the other", Command: "galloc -N2 sh -c 'grun hostname; grun ./train'"},
			{Text: "a shell of this host with a GPU to run tasks on", Command: "galloc --gpus=1 -t 60"},
			{Text: "a GPU for several commands, one after the other from anywhere", Command: "galloc --gpus=1 -t 60 --no-shell\ngrun --jobid=12 ./train\ngcancel 12"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "1", Help: "there is no allocation, or the command does not exist"},
			{Status: "255", Help: "an unknown option"},
			{Status: "any", Help: "that of the command; 128 and the number of the signal that ended it"},
		},
		Variables:     []option.Variable{{Name: "GALLOC_*, SALLOC_*", Help: "give options, as SALLOC_PARTITION gives --partition"}},
		SeeAlso:       []string{"grun", "gsubmit", "gqueue"},
		StopAtOperand: true, UsageStatus: 255,
		Run: run,
	}
}
