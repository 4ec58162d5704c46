package eff

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

// Command is the table of geff.
func Command() *option.Command {
	return &option.Command{
		Name: "eff", Alias: "seff", Summary: "show how much of what it asked for a job used", Usage: "[options] job",
		Operands: []option.Variable{{Name: "job", Help: "a job (12) or an array task (12_3); of a job that ran several times it is the last run"}},
		Description: []string{
			"geff compares what a job used of its CPUs, GPUs, memory and time with what it had, and says what to ask for next time. Memory is the highest amount that it had at once, on the node where that was the most.",
			"GPUs are measured on nodes whose driver tells what each process uses, every ten seconds, and told when the job is over: how many worked in the mean, and the most of their memory that the job had at once, on the node where that was the most. Where they were not measured geff says so.",
		},
		Run: runEff,
		Examples: []option.Example{
			{Text: "A job that is over", Command: "geff 12"},
			{Text: "A task of an array", Command: "geff 12_3"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "it was printed"}, {Status: "1", Help: "there is no such job, or no controller answers"}},
		SeeAlso:    []string{"gacct", "gsubmit"},
	}
}
