package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// ImageRules are what terms say of the images of guests; nil = nothing.
func (l *Lending) ImageRules() *pb.ImageRules {
	if l == nil || l.Images == nil {
		return nil
	}
	return l.Images.Message()
}

// imageRulesOn are those of a node's owner, as far as a job is a guest there with an image.
func (t *tables) imageRulesOn(job *Job, node string) *pb.ImageRules {
	n, known := t.nodes.Get(node)
	if !known || job.Spec.Container == nil || t.OwnersJob(job, node) {
		return nil
	}
	return n.Lending.ImageRules()
}

// image is the container image of a job; "" = it has the node's own root.
func (j *Job) image() string {
	if j.Spec.Container == nil {
		return ""
	}
	return j.Spec.Container.Image
}

// checkImage refuses an image that the policy does not allow. Its node looks again, by the
// policy of that moment, and at its signature.
func checkImage(p *policy.Policy, asked *Spec) *Refusal {
	if asked.Container == nil {
		return nil
	}
	if problem := spec.ImageProblem(p.Images.Message(), spec.SiteRules, asked.Container.Image); problem != "" {
		return refuse(Denied, "--image: %s", problem)
	}
	return nil
}
