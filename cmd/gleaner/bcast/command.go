// Package bcast is gbcast, Slurm's sbcast: it copies a file to every node of a job.
//
// The file is the input of a step with one task on each node, which writes it there: whole
// under its name, or not at all. The step is grun's, so that it works wherever grun does.
package bcast

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

const (
	optForce    = "force"
	optJobID    = "jobid"
	optNodelist = "nodelist"
	optPreserve = "preserve"
	optVerbose  = "verbose"
)

// variables are those that give an option: ours, which wins, and sbcast's.
func variables(suffix string) []string { return []string{"GBCAST_" + suffix, "SBCAST_" + suffix} }

// Command is the table of gbcast.
func Command() *option.Command {
	return &option.Command{
		Name: "bcast", Alias: "sbcast", Summary: "copy a file to every node of a job", Usage: "[options] source destination",
		Description: []string{
			"gbcast copies a file to every node of the job that it is called in, as in a batch script before the tasks start, or in the shell of galloc; with --jobid to those of another job of yours that runs. On each node the file appears whole under its name, with the mode of the source, or not at all. A file that is there already is left alone, and that is an error, unless --force is given.",
			"/tmp and /var/tmp of a job are its own on each node, and gone when it is over. A destination in a directory that the nodes share is written by each of them. An --image of the job needs a shell, /bin/sh, with cat, wc, chmod and mv.",
			"gcp copies whole directories, between a job and the host where it is typed.",
		},
		Operands: []option.Variable{
			{Name: "source", Help: "a file, seen from where gbcast runs"},
			{Name: "destination", Help: "its name on the nodes; in the present directory unless it begins with /"},
		},
		Options: []option.Option{
			{Long: optForce, Short: 'f', Environment: variables("FORCE"), Help: "replace a file that is there"},
			{Long: optJobID, Short: 'j', Argument: "job", Help: "copy to the nodes of this job", Default: "the job that it is called in"},
			{Long: optNodelist, Short: 'w', Argument: "nodes", Help: "only to these nodes of the job, as in n[1-3]"},
			{Long: optPreserve, Short: 'p', Environment: variables("PRESERVE"), Help: "give the copies the time of the source"},
			{Long: optVerbose, Short: 'v', Help: "say what is copied where"},
			{Long: "compress", Short: 'C', Argument: "type", OptionalArgument: true, Environment: variables("COMPRESS"), Help: "accepted and without effect: the copy is the same without"},
			{Long: "fanout", Short: 'F', Argument: "count", Aliases: []string{"treewidth"}, Environment: variables("FANOUT"), Help: "accepted and without effect: each node gets the file by itself"},
			{Long: "size", Short: 's', Argument: "size", Environment: variables("SIZE"), Help: "accepted and without effect: how much is sent at a time is not chosen"},
			{Long: "timeout", Short: 't', Argument: "seconds", Environment: variables("TIMEOUT"), Help: "accepted and without effect"},
			{Long: "exclude", Argument: "paths", Environment: variables("EXCLUDE"), Help: "accepted and without effect: libraries are not sent"},
			{Long: "send-libs", Argument: "yes|no", OptionalArgument: true, Environment: variables("SEND_LIBS"), Later: "jobs see the libraries of their node, or of their --image; name one that they lack as a file of its own"},
			{Long: "no-allocation", Short: 'Z', Later: "files are copied by the user of a job, into that job"},
		},
		Examples: []option.Example{
			{Text: "a data set onto the disks of all nodes, before the tasks read it", Command: "gbcast -f data.tar /tmp/data.tar\ngrun ./train /tmp/data.tar"},
			{Text: "a program for a job that runs, from the login host", Command: "gbcast --jobid=12 ./probe /tmp/probe\ngrun --jobid=12 /tmp/probe"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "the file is on every node"}, {Status: "1", Help: "on at least one it is not; standard error says on which, and why"}},
		Variables:  []option.Variable{{Name: "SLURM_JOB_ID", Help: "the job, where --jobid is not given"}},
		SeeAlso:    []string{"grun", "gcp", "galloc"},
		Run:        broadcast,
	}
}
