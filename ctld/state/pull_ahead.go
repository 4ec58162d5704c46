package state

import (
	"slices"
	"strings"

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
	if problem := spec.ImageProblem(v.policy.Images.Message(), spec.SiteRules, image); problem != "" {
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

// MayPullFirst reports whether a job may run on several nodes with a container image, which
// comes before it has them.
func (j *Job) MayPullFirst() bool { return j.Spec.Container != nil && j.Spec.MaxNodes != 1 }

// ContainerImage is the container image of a job, pinned; "" = it has its nodes' own root.
func (j *Job) ContainerImage() string { return j.image() }

// PullFirst is the order to a node to bring a waiting job's container image, as the job
// would.
func (v *View) PullFirst(job *Job, node string) *pb.TendImages {
	asked := specMessage(job, JobDetail{Environment: true})
	order := &pb.TendImages{
		Verb: pb.ImagesVerb_IMAGES_VERB_PULL, Image: asked.GetImage(), User: ownerMessage(job.Owner()),
		Rules: v.ImageRules(), OwnerRules: v.imageRulesOn(job, node), Keep: true,
	}
	for _, variable := range asked.GetEnvironment() {
		if name, _, _ := strings.Cut(variable, "="); slices.Contains(spec.RegistryVariables, name) {
			order.Environment = append(order.Environment, variable)
		}
	}
	return order
}

// ImageRules are those of the site; nil = every image is allowed.
func (v *View) ImageRules() *pb.ImageRules { return v.policy.Images.Message() }
