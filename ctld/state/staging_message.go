package state

import (
	"fmt"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file converts, both ways, what a request says of files to stage, makes the orders for
// that, and tells users how far it is.

// checkStaging refuses what cannot be staged; its error is for the user.
func checkStaging(asked *pb.JobSpec) error {
	if len(asked.GetStaging()) == 0 {
		return nil
	}
	for _, s := range asked.GetStaging() {
		if err := spec.CheckStaging(spec.Staging{Source: s.GetSource(), Target: s.GetTarget(), Out: s.GetOut()}); err != nil {
			return fmt.Errorf("staging: %w", err)
		}
	}
	switch {
	case len(asked.GetStaging()) > spec.MaxStagings:
		return fmt.Errorf("%d files to stage are more than %d: stage a directory, or an archive", len(asked.GetStaging()), spec.MaxStagings)
	case asked.GetTmpPerNodeBytes() == 0:
		return fmt.Errorf("--stage-in and --stage-out need --tmp: say how much disk the job's files take, all together")
	case asked.GetLicenses() != "":
		return fmt.Errorf("--stage-in and --stage-out cannot be had with --licenses, which would be held while files are copied: leave one out")
	}
	return nil
}

// checkStagingNodes has a job with files to stage on one node.
func (s *Spec) checkStagingNodes() *Refusal {
	if len(s.Staging) == 0 {
		return nil
	}
	if s.MinNodes > 1 || s.MaxNodes > 1 {
		return refuse(Invalid, "--stage-in and --stage-out are for jobs on one node: type --nodes=1, or copy files in the script")
	}
	s.MinNodes, s.MaxNodes = 1, 1
	return nil
}

func (s *Spec) stagingFromMessage(asked *pb.JobSpec) {
	for _, one := range asked.GetStaging() {
		s.Staging = append(s.Staging, Staging{one.GetSource(), one.GetTarget(), one.GetOut()})
	}
}

func (s *Spec) stagingMessage(message *pb.JobSpec) {
	for _, one := range s.Staging {
		message.Staging = append(message.Staging, &pb.Staging{Source: one.Source, Target: one.Target, Out: one.Out})
	}
}

// fetchLimitS is the time limit at least of a run whose results wait to be fetched: somebody
// may have to type that.
const fetchLimitS = 25 * 3600

// isFetched reports whether results of a job go to the host on which it was submitted.
func (s *Spec) isFetched() bool {
	return slices.ContainsFunc(s.Staging, func(one Staging) bool { return one.Out && strings.HasPrefix(one.Target, spec.SubmitScheme+"://") })
}

// stagingScript runs in the job, as its user; its arguments are the copies.
const stagingScript = "#!/bin/sh\nPATH=/usr/local/bin:$PATH:/run/gleaner/bin\nexec gstage \"$@\"\n"

// fillStaging makes of an order one that copies files, and says which disk is meant.
func (j *Job) fillStaging(order *pb.StartAlloc) {
	if j.Staged == nil {
		return
	}
	order.KeepDisk = j.stages() || j.Spec.has(true)
	order.Staged = j.Staged.Node != "" && j.Run.Restore == nil // an image has its own
	if !j.stages() {
		return
	}
	order.Stages = true
	if j.Staged.Stage == StageOut && j.Spec.isFetched() {
		order.TimeLimitS = max(order.TimeLimitS, fetchLimitS)
	}
	asked := order.Spec
	asked.Script, asked.Arguments = []byte(stagingScript), nil
	asked.StandardInput, asked.StandardOutput, asked.StandardError = "/dev/null", "/dev/null", "/dev/null"
	asked.Signal, asked.Gpus = "", nil
	if asked.Container != nil {
		asked.Container.Entrypoint = false
	}
	for _, one := range j.Spec.Staging {
		if one.Out == (j.Staged.Stage == StageOut) {
			asked.Arguments = append(asked.Arguments, one.Source, one.Target)
		}
	}
}

// Slurm's words for waits of this kind.
const (
	reasonStageIn    = "BurstBufferStageIn"
	reasonStageSpace = "BurstBufferResources"
)

// fillStaged says how far the copying of a job's files is.
func (t *tables) fillStaged(message *pb.Job, job *Job, overlay Overlay) {
	if job.Staged == nil {
		return
	}
	running, on := job.Stages(), ""
	if job.Run != nil {
		on = "on " + job.Run.BatchHost()
	}
	if job.stages() {
		message.Configuring, message.Completing = false, false
	}
	switch stage := job.Staged.Stage; {
	case stage == StageIn && running && job.stagesIn():
		message.Reason, message.ReasonDetail = reasonStageIn, joinSentences("its files come "+on, overlay.Preparing)
	case stage == StageIn && job.Phase == Waiting && job.Held == sched.NotHeld && slices.Contains([]string{"Resources", "Priority", "None"}, message.Reason):
		message.Reason, message.ReasonDetail = reasonStageSpace, joinSentences("its files are to be staged in", message.ReasonDetail)
	case stage == StageRun && job.Phase == Waiting && job.Staged.Node != "":
		message.ReasonDetail = joinSentences(message.ReasonDetail, t.stagedOn(job, "its files are on node ", fmt.Sprintf("gcontrol requeue %d stages them in on another", job.ID)))
	case job.stagesOut():
		fillRun(message, job.Staged.Run)
		fillEnd(message, job.Staged.End)
		message.Reason = job.Staged.End.Reason.String()
		detail := t.stagedOn(job, "its results wait to be staged out from ", fmt.Sprintf("they wait for it; gcancel %d gives them up", job.ID))
		if running {
			detail = joinSentences("its results are staged out from "+job.Staged.Node, overlay.Preparing)
		}
		message.ReasonDetail = joinSentences(job.Staged.End.Detail, detail)
	}
}

// stagedOn says where the files of a waiting job are, and what helps if that is not there.
func (t *tables) stagedOn(job *Job, text, help string) string {
	text += job.Staged.Node
	if node, known := t.nodes.Get(job.Staged.Node); !known || !node.Available() {
		text += ", which takes no jobs now: " + help
	}
	return text
}
