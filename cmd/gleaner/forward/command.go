// Package forward is gforward: ports of this host lead to ports inside a job.
//
// The job's end is a session of process 1's own program, so who may attach to the job may
// forward, and nobody else; what goes over the session is proto/forward's.
package forward

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

const (
	optAddress = "address"
	optNode    = "node"
	optQuiet   = "quiet"
)

// Command is the table of gforward.
func Command() *option.Command {
	return &option.Command{
		Name:       "forward",
		Standalone: true,
		Summary:    "reach ports inside a job that runs, such as a notebook's",
		Description: []string{
			"Programs on this host that connect to LOCAL reach PORT inside the job: a notebook, a dashboard, a debugger. It runs until it is interrupted, or the job is over. The bytes go through the controllers, as those of gattach do; nothing has to reach the node.",
			"The job may have its node's network or one of its own (--network). The program in the job need not listen yet: each connection asks again. In the job it is the job's user who connects. Who may forward: the user of the job, and root.",
			"It goes on when the controller changes, and when the job is saved and moved. Connections of a job with a network of its own wait meanwhile and go on; one with its node's network is not saved while connections are open. When the job starts over, or goes on from an earlier image, connections are closed, and new ones reach it.",
			"Local ports are open on 127.0.0.1, where every user of this host reaches them: let your program ask for a password or token, as notebooks do. At most 128 connections are open at a time.",
		},
		Usage: "[options] job port[:local]...",
		Operands: []option.Variable{
			{Name: "job", Help: "a job (12), or a task of an array (13_4)"},
			{Name: "port[:local]", Help: "a port inside the job, and the port of this host that leads there: the same where it is left out"},
		},
		Options: []option.Option{
			{Long: optAddress, Argument: "address", Default: standardAddress, Help: "the address of this host on which the local ports are open; others reach what is open on an address of a network"},
			{Long: optNode, Argument: "node", Help: "in a job on several nodes: the node, by its name inside the job, on which the program listens, on all addresses; by default that of the batch script, also on 127.0.0.1"},
			{Long: optQuiet, Short: 'q', Help: "print nothing but errors"},
		},
		Examples: []option.Example{
			{Text: "a notebook; its job's script ends with: jupyter lab --no-browser --port=8888", Command: "gforward 12 8888"},
			{Text: "a dashboard whose port is in use here", Command: "gforward 12 6006:16006"},
			{Text: "two ports at once", Command: "gforward 12 8888 8787"},
			{Text: "a port of the second node of a job", Command: "gforward --node=n2 12 8787"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "1", Help: "refused, or the job is over"},
			{Status: "130", Help: "it was interrupted"},
		},
		SeeAlso: []string{"gattach", "gcp", "grun"},
		Run:     forwardPorts,
	}
}
