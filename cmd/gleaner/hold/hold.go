// Package hold is the script of a job that only holds nodes for a client: it waits,
// inside the job, for the end of the client's session, and ends as that did.
//
// It asks process 1 of the job, and no controller.
package hold

import (
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Command is the table of gleaner hold, which nobody types.
func Command() *option.Command {
	return &option.Command{
		Name: "hold", Hidden: true, Summary: "wait inside a job for the session that it lives as long as", Usage: "[session seconds]",
		Operands: []option.Variable{
			{Name: "session", Help: "its name"}, {Name: "seconds", Help: "how long it may be without a client"},
		},
		ExitStatus: []option.ExitStatus{{Status: "any", Help: "that of the session's task; 1 if its client stayed away"}},
		Run:        hold,
	}
}

func hold(inv *option.Invocation) error {
	if len(inv.Operands) == 0 && inv.Getenv("GLEANER_STEP_SOCKET") != "" {
		<-inv.Context.Done()
		return nil
	}
	if len(inv.Operands) != 2 {
		return option.Fail(1, "gleaner hold is the script of jobs that grun and galloc make: type grun or galloc")
	}
	patience, err := strconv.ParseUint(inv.Operands[1], 10, 32)
	if err != nil || patience > step.MaxHoldS {
		return option.Fail(1, "%q is no number of seconds up to %d", inv.Operands[1], step.MaxHoldS)
	}
	socket := inv.Getenv("GLEANER_STEP_SOCKET")
	if socket == "" {
		return option.Fail(1, "gleaner hold works inside a job only")
	}
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("unable to contact process 1 of this job: %w", err)
	}
	process1 := step.NewClient(connection)
	defer process1.Close()
	ended, err := process1.Hold(inv.Operands[0], uint32(patience))
	if err != nil {
		return fmt.Errorf("the job ends: %w", err)
	}
	if ended.Signal != 0 {
		return option.Exit(128 + int(syscall.Signal(ended.Signal)))
	}
	return option.Exit(ended.Code)
}
