package jobspec

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file has the options by which files come to a job before it has its GPUs, and its
// results go when it has given them back.

const (
	optStageIn  = "stage-in"
	optStageOut = "stage-out"
)

// stagingOptions are those of jobs with a script.
func stagingOptions() []option.Option {
	return []option.Option{
		{Long: optStageIn, Argument: "source:target", InScript: true, Help: "copy this to the job's node before it has its GPUs; may be given more than once, and needs --tmp. The source is http://, https:// or s3:// with a bucket and a key, or a path as the job sees it; behind #sha256= may stand what its SHA-256 has to be. The target is a path in the job"},
		{Long: optStageOut, Argument: "source:target", InScript: true, Help: "copy this away when the job is over, however it ended, and has given back its GPUs; may be given more than once, and needs --tmp. The source is a path in the job, the target http://, https:// (PUT) or s3://, or a path as the job sees it"},
	}
}

// staging reads them.
func (b *Builder) staging() {
	for _, long := range []string{optStageIn, optStageOut} {
		for _, text := range b.Values.All(long) {
			one, err := spec.ParseStaging(text, long == optStageOut)
			if err != nil {
				b.Fail(1, "Invalid --%s specification: %w", long, err)
				return
			}
			b.spec.Staging = append(b.spec.Staging, &pb.Staging{Source: one.Source, Target: one.Target, Out: one.Out})
		}
	}
	if len(b.spec.Staging) > 0 && !b.Values.Given(optTmp) {
		b.Fail(1, "--%s and --%s need --%s: say how much disk the job's files take, all together", optStageIn, optStageOut, optTmp)
	}
}
