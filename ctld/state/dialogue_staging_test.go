package state

import (
	"fmt"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// This file has the words of dialogues about jobs whose files are staged:
//
//	submit by=1000 in=URL out=URL tmp=1000    to /tmp/in, and from /tmp/out
//	staged                                    which disks nodes keep, and what users see of those jobs

func addStaging(job *pb.JobSpec, a arguments) {
	if in := a.values["in"]; in != "" {
		job.Staging = append(job.Staging, &pb.Staging{Source: in, Target: "/tmp/in"})
	}
	if out := a.values["out"]; out != "" {
		job.Staging = append(job.Staging, &pb.Staging{Source: "/tmp/out", Target: out, Out: true})
	}
	if tmp := a.size("tmp"); tmp > 0 {
		job.TmpPerNodeBytes = tmp
	}
}

func (d *dialogue) staged() (out string) {
	view := d.state.View()
	for job := range view.Jobs(0) {
		if len(job.Spec.Staging) > 0 {
			message := view.JobMessage(job, Overlay{Preparing: "half of it"}, JobDetail{})
			out += fmt.Sprintf("%d %s nodes=%s reason=%s (%s)\n", job.ID, message.State, message.NodeList, message.Reason, message.ReasonDetail)
		}
	}
	for node := range view.Nodes() {
		if kept := view.StagedJobs()[node.Name]; len(kept) > 0 {
			out += fmt.Sprintf("%s keeps %v\n", node.Name, kept)
		}
	}
	return out
}

// firstStagedSeed is that of the walks in which files are staged.
const firstStagedSeed = 500

// TestStagedWalk is TestRandomWalk with jobs whose files are staged.
func TestStagedWalk(t *testing.T) {
	seeds, steps := prototest.Soak(2, 40), 1500
	for seed := range int64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			walk(t, firstStagedSeed+seed%2*firstSavedSeed+seed, steps)
		})
	}
}

// staging has some of the jobs' files staged.
func (w *walker) staging(c *SubmitJob) {
	if w.chance(50) {
		return
	}
	spec := &c.Spec
	spec.MinNodes, spec.TmpPerNode, spec.Licenses = 1, 1<<10, nil
	if w.chance(80) {
		spec.Staging = append(spec.Staging, Staging{Source: "http://host/f", Target: "/tmp/f"})
	}
	if w.chance(60) {
		spec.Staging = append(spec.Staging, Staging{Source: "/tmp/r", Target: "s3://bucket/r", Out: true})
	}
}
