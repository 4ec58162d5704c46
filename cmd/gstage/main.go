// Command gstage is the script of the runs of a job that copy its files, before it has its
// GPUs and after it has given them back (--stage-in, --stage-out). It runs in the job, as
// the job's user and in the job's network, with the job's limits: it can do what the job
// can, and nothing else. Nobody needs to type it.
//
// On several nodes each runs it, with what that node has to copy.
//
//	gstage SOURCE TARGET ...  one of the two is http://, https:// or s3://, the other a path
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, newCopier(os.Getenv), os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "gstage: error: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c *copier, operands []string) error {
	if len(operands) == 0 || len(operands)%2 != 0 {
		return errors.New("it is the script of runs that copy files: type gsubmit --stage-in SOURCE:TARGET")
	}
	for i := 0; i < len(operands); i += 2 {
		one := spec.Staging{Source: operands[i], Target: operands[i+1]}
		one.Out = isURL(one.Target)
		if err := spec.CheckStaging(one); err != nil {
			return err
		}
		if err := c.copy(ctx, one); err != nil {
			c.say("%v", err)
			return err
		}
	}
	return nil
}
