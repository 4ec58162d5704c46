package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// This file has the words of dialogues about jobs whose files are staged:
//
//	submit by=1000 in=URL out=URL tmp=1000    to /tmp/in, and from /tmp/out
//	submit by=1000 once=URL                   to /shared, by the first node
//	copies 1 n1                               what the order to a node says is to be copied
//	staged                                    which disks nodes keep, and what users see of those jobs

func addStaging(job *pb.JobSpec, a arguments) {
	if in := a.values["in"]; in != "" {
		job.Staging = append(job.Staging, &pb.Staging{Source: in, Target: "/tmp/in"})
	}
	if once := a.values["once"]; once != "" {
		job.Staging = append(job.Staging, &pb.Staging{Source: once, Target: "/shared", Once: true})
	}
	if out := a.values["out"]; out != "" {
		job.Staging = append(job.Staging, &pb.Staging{Source: "/tmp/out", Target: out, Out: true})
	}
	if tmp := a.size("tmp"); tmp > 0 {
		job.TmpPerNodeBytes = tmp
	}
}

func (d *dialogue) copies(job, node string) string {
	id, _ := strconv.ParseUint(job, 10, 32)
	order, err := d.state.View().StartAlloc(uint32(id), node)
	if err != nil {
		return err.Error() + "\n"
	}
	return fmt.Sprintf("batch host %s, gang %t, keeps %t, has %t: %s\n", order.BatchHost, order.Gang, order.KeepDisk, order.Staged, strings.Join(order.Spec.Arguments, " "))
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

// whereStaged has most jobs with files to stage placed where their stage may be.
func (w *walker) whereStaged(v *View, order *StartOrder) {
	job, known := v.Job(order.Job)
	if !known || job.Staged == nil || w.chance(20) {
		return
	}
	among, most := job.Staged.waitsFor(), int(job.Spec.MinNodes)
	if job.Staged.Stage == StageOut && w.chance(40) {
		most = 1
	}
	order.Allocs = nil
	for n := range 6 {
		name := fmt.Sprintf("n%d", n)
		node, known := v.Node(name)
		if !known || node.Inventory == nil || among != nil && !slices.Contains(among, name) || len(order.Allocs) == most || among == nil && w.chance(30) {
			continue
		}
		alloc := w.allocOrder(node)
		if job.stages() {
			alloc.Devices = nil
		}
		order.Allocs = append(order.Allocs, alloc)
	}
}

// staging has some of the jobs' files staged.
func (w *walker) staging(c *SubmitJob) {
	if w.chance(50) {
		return
	}
	spec := &c.Spec
	spec.MinNodes, spec.TmpPerNode, spec.Licenses = uint32(1+w.Intn(2)), 1<<10, nil
	spec.MaxNodes = spec.MinNodes
	if w.chance(80) {
		spec.Staging = append(spec.Staging, Staging{Source: "http://host/f", Target: "/tmp/f"})
	}
	if w.chance(60) {
		spec.Staging = append(spec.Staging, Staging{Source: "/tmp/r", Target: "s3://bucket/r/%n", Out: true})
	}
}
