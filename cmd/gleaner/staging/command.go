// Package staging is the script of the runs of a job that copy its files, before it has its
// GPUs and after it has given them back (--stage-in, --stage-out). It runs in the job, as
// the job's user and in the job's network, with the job's limits: it can do what the job
// can, and nothing else.
package staging

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Command is the table of gleaner stage, which nobody types.
func Command() *option.Command {
	return &option.Command{
		Name: "stage", Hidden: true, Summary: "copy a job's files into it, or its results away", Usage: "source target ...",
		Operands: []option.Variable{
			{Name: "source", Help: "http://, https://, s3:// or a path"}, {Name: "target", Help: "the same; of the two one is a path"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "all is copied"}, {Status: "1", Help: "something is not"}},
		Run:        stage,
	}
}

func stage(inv *option.Invocation) error {
	if len(inv.Operands) == 0 || len(inv.Operands)%2 != 0 {
		return option.Fail(1, "gleaner stage is the script of runs that copy files: type gsubmit --stage-in SOURCE:TARGET")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	c := newCopier(inv)
	for i := 0; i < len(inv.Operands); i += 2 {
		one := spec.Staging{Source: inv.Operands[i], Target: inv.Operands[i+1]}
		one.Out = isURL(one.Target)
		if err := spec.CheckStaging(one); err != nil {
			return option.Fail(1, "%w", err)
		}
		if err := c.copy(ctx, one); err != nil {
			c.say("%v", err)
			return option.Fail(1, "%w", err)
		}
	}
	return nil
}
