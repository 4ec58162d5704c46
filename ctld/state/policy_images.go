package state

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// ImagePolicy says which container images jobs may have. See pb.ImageRules.
type ImagePolicy struct {
	Allow  []string       `cbor:"1,keyasint,omitempty"`
	Deny   []string       `cbor:"2,keyasint,omitempty"`
	Barred []string       `cbor:"3,keyasint,omitempty"`
	Signed []SignedImages `cbor:"4,keyasint,omitempty"`
}

// SignedImages must be signed by one of the keys.
type SignedImages struct {
	Images []string `cbor:"1,keyasint"`
	Keys   []string `cbor:"2,keyasint"`
}

func imagePolicyOf(rules *pb.ImageRules) ImagePolicy {
	p := ImagePolicy{Allow: rules.GetAllow(), Deny: rules.GetDeny(), Barred: rules.GetBarred()}
	for _, signed := range rules.GetSigned() {
		p.Signed = append(p.Signed, SignedImages{signed.GetImages(), signed.GetKeys()})
	}
	return p
}

// message is nil if every image is allowed.
func (p *ImagePolicy) message() *pb.ImageRules {
	if len(p.Allow)+len(p.Deny)+len(p.Barred)+len(p.Signed) == 0 {
		return nil
	}
	rules := &pb.ImageRules{Allow: p.Allow, Deny: p.Deny, Barred: p.Barred}
	for _, signed := range p.Signed {
		rules.Signed = append(rules.Signed, &pb.SignedImages{Images: signed.Images, Keys: signed.Keys})
	}
	return rules
}

// ownersImages is what the terms of a node say of the images of guests; nil = nothing.
func ownersImages(rules *pb.ImageRules) *ImagePolicy {
	p := imagePolicyOf(rules)
	if p.message() == nil {
		return nil
	}
	return &p
}

// ImageRules are what terms say of the images of guests; nil = nothing.
func (l *Lending) ImageRules() *pb.ImageRules {
	if l == nil || l.Images == nil {
		return nil
	}
	return l.Images.message()
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

func (p *ImagePolicy) settings() []setting {
	var signed []string
	for _, s := range p.Signed {
		signed = append(signed, fmt.Sprintf("%s (%d keys, the last ends in %s)", strings.Join(s.Images, ","), len(s.Keys), keyEnd(s.Keys)))
	}
	return []setting{
		{"allow", strings.Join(p.Allow, ",")}, {"deny", strings.Join(p.Deny, ",")},
		{"barred", strings.Join(p.Barred, ",")}, {"signed", strings.Join(signed, "; ")},
	}
}

// keyEnd tells keys apart that are shown.
func keyEnd(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	text, _, _ := strings.Cut(strings.TrimSpace(keys[len(keys)-1]), "\n-----END")
	const shown = 12
	return text[max(0, len(text)-shown):]
}

// checkImage refuses an image that the policy does not allow. Its node looks again, by the
// policy of that moment, and at its signature.
func (p *Policy) checkImage(asked *Spec) *Refusal {
	if asked.Container == nil {
		return nil
	}
	if problem := spec.ImageProblem(p.Images.message(), spec.SiteRules, asked.Container.Image); problem != "" {
		return refuse(Denied, "--image: %s", problem)
	}
	return nil
}
