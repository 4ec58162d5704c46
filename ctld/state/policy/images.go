package policy

import (
	"crypto/sha256"
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Images says which container images jobs may have. See pb.ImageRules.
type Images struct {
	Allow  []string       `cbor:"1,keyasint,omitempty"`
	Deny   []string       `cbor:"2,keyasint,omitempty"`
	Barred []string       `cbor:"3,keyasint,omitempty"`
	Signed []SignedImages `cbor:"4,keyasint,omitempty"`
	Root   []byte         `cbor:"5,keyasint,omitempty"` // trusted_root.json of keyless signatures; the site's only
}

// SignedImages must be signed by one of the keys or identities.
type SignedImages struct {
	Images     []string        `cbor:"1,keyasint"`
	Keys       []string        `cbor:"2,keyasint,omitempty"`
	Identities []ImageIdentity `cbor:"3,keyasint,omitempty"`
}

// ImageIdentity is who must have made a keyless signature. See pb.ImageIdentity.
type ImageIdentity struct {
	Subject       string `cbor:"1,keyasint,omitempty"`
	SubjectRegexp string `cbor:"2,keyasint,omitempty"`
	Issuer        string `cbor:"3,keyasint,omitempty"`
	IssuerRegexp  string `cbor:"4,keyasint,omitempty"`
	Predicate     string `cbor:"5,keyasint,omitempty"`
}

func (i *ImageIdentity) message() *pb.ImageIdentity {
	return &pb.ImageIdentity{
		CertificateIdentity: i.Subject, CertificateIdentityRegexp: i.SubjectRegexp,
		CertificateOidcIssuer: i.Issuer, CertificateOidcIssuerRegexp: i.IssuerRegexp, PredicateType: i.Predicate,
	}
}

func signedImagesOf(message *pb.SignedImages) SignedImages {
	signed := SignedImages{Images: message.GetImages(), Keys: message.GetKeys()}
	for _, i := range message.GetIdentities() {
		signed.Identities = append(signed.Identities, ImageIdentity{
			i.GetCertificateIdentity(), i.GetCertificateIdentityRegexp(), i.GetCertificateOidcIssuer(), i.GetCertificateOidcIssuerRegexp(), i.GetPredicateType(),
		})
	}
	return signed
}

func (s *SignedImages) message() *pb.SignedImages {
	message := &pb.SignedImages{Images: s.Images, Keys: s.Keys}
	for i := range s.Identities {
		message.Identities = append(message.Identities, s.Identities[i].message())
	}
	return message
}

func imagesFromMessage(rules *pb.ImageRules) Images {
	p := Images{Allow: rules.GetAllow(), Deny: rules.GetDeny(), Barred: rules.GetBarred(), Root: rules.GetTrustedRoot()}
	for _, signed := range rules.GetSigned() {
		p.Signed = append(p.Signed, signedImagesOf(signed))
	}
	return p
}

// Message is nil if nothing is said. A trusted root alone is for the rules of owners.
func (p *Images) Message() *pb.ImageRules {
	if len(p.Allow)+len(p.Deny)+len(p.Barred)+len(p.Signed)+len(p.Root) == 0 {
		return nil
	}
	rules := &pb.ImageRules{Allow: p.Allow, Deny: p.Deny, Barred: p.Barred, TrustedRoot: p.Root}
	for i := range p.Signed {
		rules.Signed = append(rules.Signed, p.Signed[i].message())
	}
	return rules
}

// OwnersImages is what the terms of a node say of the images of guests; nil = nothing.
func OwnersImages(rules *pb.ImageRules) *Images {
	p := imagesFromMessage(rules)
	if p.Message() == nil {
		return nil
	}
	return &p
}

func (p *Images) settings() []setting {
	var signed []string
	for i := range p.Signed {
		signed = append(signed, p.Signed[i].text())
	}
	return []setting{
		{"allow", strings.Join(p.Allow, ",")}, {"deny", strings.Join(p.Deny, ",")},
		{"barred", strings.Join(p.Barred, ",")}, {"signed", strings.Join(signed, "; ")}, {"trusted_root", rootText(p.Root)},
	}
}

// text says who must have signed what.
func (s *SignedImages) text() string {
	var by []string
	if len(s.Keys) > 0 {
		by = append(by, fmt.Sprintf("%d keys, the last ends in %s", len(s.Keys), keyEnd(s.Keys)))
	}
	for i := range s.Identities {
		by = append(by, spec.IdentityText(s.Identities[i].message()))
	}
	return fmt.Sprintf("%s (%s)", strings.Join(s.Images, ","), strings.Join(by, ", "))
}

// rootText tells trusted roots apart.
func rootText(root []byte) string {
	if len(root) == 0 {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(root))
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
