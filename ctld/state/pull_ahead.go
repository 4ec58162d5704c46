package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// MayPull says why a user may not bring a container image to a node ahead of jobs; "" = they
// may, as far as the site's rules and the terms of the node's owner go. It answers the
// owner's rules too: signatures are for the node to look at.
func (v *View) MayPull(user *pb.Identity, image, partition, node string) (ofOwner *pb.ImageRules, why string) {
	job := &Job{Spec: &Spec{Partitions: []string{partition}, Container: &Container{Image: image}}}
	owner := ownerRecord(user)
	if association := v.associationFor(job.Spec, &owner); association != nil {
		job.Association = association.ID
	}
	if problem := spec.ImageProblem(v.policy.Images.message(), spec.SiteRules, image); problem != "" {
		return nil, problem
	}
	found, known := v.nodes.Get(node)
	if !known || found.Lending == nil || v.OwnersJob(job, node) {
		return nil, ""
	}
	if !v.admits(found.Lending, job) {
		return nil, "the node's owner admits no guests of your account: ask the owner (glend " + node + " --accounts)"
	}
	rules := found.Lending.ImageRules()
	return rules, spec.ImageProblem(rules, spec.OwnerRules, image)
}

// ImageRules are those of the site; nil = every image is allowed.
func (v *View) ImageRules() *pb.ImageRules { return v.policy.Images.message() }
