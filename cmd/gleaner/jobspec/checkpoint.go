package jobspec

import (
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file has the options that say how a job is warned before its end, and
// how it is saved.

const (
	optSignal             = "signal"
	optCheckpoint         = "checkpoint"
	optCheckpointDir      = "checkpoint-dir"
	optCheckpointInterval = "checkpoint-interval"
	optCheckpointConns    = "checkpoint-connections"
)

func checkpointOptions() []option.Option {
	return []option.Option{
		{Long: optSignal, Argument: "[B:]signal[@seconds]", InScript: true, Environment: variables("SIGNAL"), Help: "send this signal so many seconds (60) before the time limit, and in place of the first TERM when the job is preempted: to the steps, or with B: to the batch script alone"},
		{Long: optCheckpoint, Argument: "auto|system|app|none", InScript: true, Environment: variables("CHECKPOINT"), Help: "how the job is saved when it has to make room: by the system, by itself (app), or not; a script under app that exits with 85 has saved its work and is run again", Default: "auto"},
		{Long: optCheckpointDir, Argument: "directory", InScript: true, Environment: variables("CHECKPOINT_DIR"), Help: "where a job saves itself, made for it and told in GLEANER_CHECKPOINT_DIR; it may contain the patterns of file names", Default: "with --checkpoint=app .gleaner/JOB in the work directory"},
		{Long: optCheckpointInterval, Argument: "time|auto", InScript: true, Environment: variables("CHECKPOINT_INTERVAL"), Help: "save the job so often while it runs; times as for --time, auto as often as loses the least", Default: "only when it has to make room"},
		{Long: optCheckpointConns, Argument: "refuse|close", InScript: true, Environment: variables("CHECKPOINT_CONNECTIONS"), Help: "what a save does about connections to the outside of a job with --network=private: wait until there is none, or reset them when the job resumes, so that its programs dial again", Default: "refuse"},
	}
}

// checkpoint reads them.
func (b *Builder) checkpoint() {
	v := b.Values
	if v.Given(optSignal) {
		signal, err := spec.ParseEndSignal(v.Text(optSignal))
		if err != nil {
			b.Fail(255, "Invalid --%s specification: %w", optSignal, err)
		}
		b.spec.Signal = signal.String()
	}
	if !v.Given(optCheckpoint) && !v.Given(optCheckpointDir) && !v.Given(optCheckpointInterval) && !v.Given(optCheckpointConns) {
		return
	}
	policy := &pb.CheckpointPolicy{Mode: strings.ToLower(v.Text(optCheckpoint)), Directory: v.Text(optCheckpointDir), Connections: strings.ToLower(v.Text(optCheckpointConns))}
	for _, long := range []string{optCheckpoint, optCheckpointDir, optCheckpointConns} {
		if v.Given(long) && v.Text(long) == "" {
			b.failEmpty(long)
		}
	}
	if v.Given(optCheckpointInterval) {
		var err error
		if policy.IntervalS, policy.IntervalAuto, err = spec.ParseCheckpointInterval(v.Text(optCheckpointInterval)); err != nil {
			b.Fail(255, "Invalid --%s specification: %w", optCheckpointInterval, err)
		}
	}
	if err := spec.CheckCheckpoint(policy); err != nil {
		b.Fail(1, "%w", err)
	}
	b.spec.Checkpoint = policy
}
