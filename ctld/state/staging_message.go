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
		if err := spec.CheckStaging(spec.Staging{Source: s.GetSource(), Target: s.GetTarget(), Out: s.GetOut(), Once: s.GetOnce()}); err != nil {
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

// checkStagingNodes has a job with files to stage on a number of nodes that is known before
// it runs, because its files come to all of them first. It is one if the job does not say.
func (s *Spec) checkStagingNodes() *Refusal {
	if len(s.Staging) == 0 {
		return nil
	}
	s.MinNodes = max(s.MinNodes, 1)
	if s.MaxNodes > s.MinNodes {
		return refuse(Invalid, "--stage-in and --stage-out are for jobs on a number of nodes that is known beforehand: type --nodes=%d", s.MinNodes)
	}
	s.MaxNodes = s.MinNodes
	for _, one := range s.Staging {
		switch _, _, here := one.words().Here(); {
		case s.MinNodes == 1 || !here || !one.words().EachNode():
		case one.Out:
			return refuse(Invalid, "--stage-out: the host on which you submit gets results of the job's first node: leave out %%N and %%n, or let them go to a web server, into a bucket or into a shared folder")
		default:
			return refuse(Invalid, "--stage-in: from the host on which you submit files come to the job's first node: type once:here:FILE:TARGET with a target in a folder that the nodes share, or put it on a web server or into a bucket")
		}
	}
	return nil
}

// words is the copy as the languages of options know it.
func (s Staging) words() spec.Staging {
	return spec.Staging{Source: s.Source, Target: s.Target, Out: s.Out, Once: s.Once}
}

func (s *Spec) stagingFromMessage(asked *pb.JobSpec) {
	for _, one := range asked.GetStaging() {
		s.Staging = append(s.Staging, Staging{one.GetSource(), one.GetTarget(), one.GetOut(), one.GetOnce()})
	}
}

func (s *Spec) stagingMessage(message *pb.JobSpec) {
	for _, one := range s.Staging {
		message.Staging = append(message.Staging, &pb.Staging{Source: one.Source, Target: one.Target, Out: one.Out, Once: one.Once})
	}
}

// fetchLimitS is the time limit at least of a run whose results wait to be fetched: somebody
// may have to type that.
const fetchLimitS = 25 * 3600

// isFetched reports whether results of a job go to the host on which it was submitted.
func (s *Spec) isFetched() bool {
	return slices.ContainsFunc(s.Staging, func(one Staging) bool { return one.Out && strings.HasPrefix(one.Target, spec.SubmitScheme+"://") })
}

// stagingScript runs in the job, as its user; its arguments are the copies. On a node that
// has none to make idleScript runs.
const idleScript = "#!/bin/sh\n:\n"
const stagingScript = "#!/bin/sh\nPATH=/usr/local/bin:$PATH:/run/gleaner/bin\nexec gstage \"$@\"\n"

// fillStaging makes of an order one that copies files, and says which disk is meant.
func (j *Job) fillStaging(order *pb.StartAlloc) {
	if j.Staged == nil {
		return
	}
	order.KeepDisk = j.stages() || j.Spec.has(true)
	order.Staged = j.Staged.Nodes != nil && j.Run.Restore == nil // an image has its own
	if !j.stages() {
		return
	}
	// Each node copies by itself.
	order.Stages, order.Gang, order.BatchHost = true, false, order.Node
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
	index := j.stagingIndex(order.Node)
	for _, one := range j.Spec.Staging {
		if one.Out != (j.Staged.Stage == StageOut) {
			continue
		}
		if copied, makes := one.words().On(order.Node, index); makes {
			asked.Arguments = append(asked.Arguments, copied.Source, copied.Target)
		}
	}
	if len(asked.Arguments) == 0 {
		asked.Script = []byte(idleScript)
	}
}

// stagingIndex is that of a node in the job's own run.
func (j *Job) stagingIndex(node string) int {
	run := j.Run
	if j.Staged.Stage == StageOut {
		run = j.Staged.Run
	}
	return slices.Index(run.nodes(), node)
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
		on = "on " + spec.FormatHostList(job.Run.nodes())
	}
	if job.stages() {
		message.Configuring, message.Completing = false, false
	}
	switch stage := job.Staged.Stage; {
	case stage == StageIn && running && job.stagesIn():
		message.Reason, message.ReasonDetail = reasonStageIn, joinSentences("its files come "+on, overlay.Preparing)
	case stage == StageIn && job.Phase == Waiting && job.Held == sched.NotHeld && slices.Contains([]string{"Resources", "Priority", "None"}, message.Reason):
		message.Reason, message.ReasonDetail = reasonStageSpace, joinSentences("its files are to be staged in", message.ReasonDetail)
	case stage == StageRun && job.Phase == Waiting && job.Staged.Nodes != nil:
		message.ReasonDetail = joinSentences(message.ReasonDetail, t.stagedOn(job, "its files are on "+nodesText(job.Staged.Nodes), fmt.Sprintf("gcontrol requeue %d stages them in elsewhere", job.ID)))
	case job.stagesOut():
		fillRun(message, job.Staged.Run)
		fillEnd(message, job.Staged.End)
		message.Reason = job.Staged.End.Reason.String()
		detail := t.stagedOn(job, "its results wait to be staged out from "+spec.FormatHostList(job.Staged.Nodes), fmt.Sprintf("they wait for it; gcancel %d gives them up", job.ID))
		if running {
			detail = joinSentences("its results are staged out from "+spec.FormatHostList(job.Run.nodes()), overlay.Preparing)
		}
		message.ReasonDetail = joinSentences(job.Staged.End.Detail, detail)
	}
}

// stagedOn adds to where the files of a waiting job are which of these nodes take no jobs,
// and what helps.
func (t *tables) stagedOn(job *Job, text, help string) string {
	var away []string
	for _, name := range job.Staged.Nodes {
		if node, known := t.nodes.Get(name); !known || !node.Available() {
			away = append(away, name)
		}
	}
	switch {
	case len(away) == 0:
		return text
	case len(job.Staged.Nodes) == 1:
		return text + ", which takes no jobs now: " + help
	}
	return text + ", and " + spec.FormatHostList(away) + " of these takes no jobs now: " + help
}

// nodesText names nodes in a sentence.
func nodesText(names []string) string {
	if len(names) == 1 {
		return "node " + names[0]
	}
	return "nodes " + spec.FormatHostList(names)
}
