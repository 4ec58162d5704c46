// Package keyless checks signatures and attestations of container images that were made
// with a certificate of some minutes (Fulcio's) instead of a key: whether one of some
// identities has made one of the image.
//
// It asks nobody. What counts is a pinned trusted root: the authorities that may issue such
// certificates, and the logs and clocks that prove when a signature was made. A certificate
// is judged at that time, however long ago it ended. Whatever the root lists is demanded: an
// entry of a transparency log if there is such a log, and a certificate that was made known
// (SCT) if there are logs of certificates.
//
// It is the only package that knows Sigstore's library, which is large; cmd/goci alone
// imports it.
package keyless

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/gleaner-hpc/gleaner/oci/sign"
)

// Verify answers which of the identities has signed the image, or why none has.
func Verify(q *sign.Question) *sign.Answer {
	c, err := newCheck(q)
	if err != nil {
		return &sign.Answer{Identity: -1, Why: err.Error()}
	}
	why := reasons{}
	for i := range q.Signatures[:min(len(q.Signatures), sign.MaxSignatures)] {
		made, reason := c.one(&q.Signatures[i])
		if made == nil {
			why.add(reason)
			continue
		}
		for number, identity := range c.identities {
			if identity.is(made) {
				return &sign.Answer{Identity: number}
			}
		}
		why.add(reason)
	}
	return &sign.Answer{Identity: -1, Why: why.String()}
}

// check is one question, prepared.
type check struct {
	*sign.Question
	digest     []byte
	root       *root.TrustedRoot
	verifier   *verify.Verifier
	identities []identity
}

func newCheck(q *sign.Question) (*check, error) {
	c := &check{Question: q}
	text, isSHA256 := strings.CutPrefix(q.Digest, "sha256:")
	var err error
	if c.digest, err = hex.DecodeString(text); err != nil || !isSHA256 {
		return nil, fmt.Errorf("%.80q is no digest", q.Digest)
	}
	if c.root, err = root.NewTrustedRootFromJSON(q.Root); err != nil {
		return nil, fmt.Errorf("the trusted root cannot be read: %w", err)
	}
	if c.verifier, err = verify.NewVerifier(c.root, demands(c.root)...); err != nil {
		return nil, err
	}
	for i := range q.Identities {
		wanted, err := newIdentity(&q.Identities[i])
		if err != nil {
			return nil, err
		}
		c.identities = append(c.identities, wanted)
	}
	return c, nil
}

// demands are what a signature has to have besides a certificate.
func demands(trusted *root.TrustedRoot) []verify.VerifierOption {
	wanted := []verify.VerifierOption{verify.WithoutStatementPredicate()}
	if len(trusted.RekorLogs()) > 0 {
		// The log may say when it was made, or a clock may.
		wanted = append(wanted, verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
	} else {
		wanted = append(wanted, verify.WithSignedTimestamps(1))
	}
	if len(trusted.CTLogs()) > 0 {
		wanted = append(wanted, verify.WithSignedCertificateTimestamps(1))
	}
	return wanted
}

// identity is one that is wanted.
type identity struct {
	verify.CertificateIdentity
	predicate string
}

func newIdentity(of *sign.Identity) (identity, error) {
	matcher, err := verify.NewShortCertificateIdentity(of.Issuer, of.IssuerRegexp, of.Subject, of.SubjectRegexp)
	if err != nil {
		return identity{}, fmt.Errorf("an identity: %w", err)
	}
	predicate := of.Predicate
	if predicate == "" {
		predicate = sign.SignaturePredicate
	}
	return identity{matcher, predicate}, nil
}

// made is a signature or an attestation of the image that holds.
type made struct {
	by        certificate.Summary
	predicate string
}

func (i *identity) is(m *made) bool { return m.predicate == i.predicate && i.Verify(m.by) == nil }

// one looks at a signature. The reason is why it is not one of the identities', if it is
// not.
func (c *check) one(s *sign.Signed) (m *made, why reason) {
	defer func() {
		// A stranger's signature must not hide those of others.
		if r := recover(); r != nil {
			m, why = nil, reason{unread, fmt.Sprintf("a signature of it cannot be read: %.200v", r)}
		}
	}()
	entity, artifact, why := c.entity(s)
	if entity == nil {
		return nil, why
	}
	// Who has made it is compared with each identity, and told if it is none of them.
	result, err := c.verifier.Verify(entity, verify.NewPolicy(artifact, verify.WithoutIdentitiesUnsafe()))
	if err != nil {
		return nil, c.explain(entity, err)
	}
	if result.Signature == nil || result.Signature.Certificate == nil {
		return nil, reason{byKey, "its signatures are made with keys"}
	}
	m = &made{by: *result.Signature.Certificate, predicate: sign.SignaturePredicate}
	if s.Bundle != nil {
		m.predicate = result.Statement.GetPredicateType()
	}
	return m, by(m)
}

// entity is a signature as the library has it, and what it has to be of; nil = it is not
// worth a look.
func (c *check) entity(s *sign.Signed) (*bundle.Bundle, verify.ArtifactPolicyOption, reason) {
	if s.Bundle == nil {
		return c.ofCosign(s)
	}
	entity := &bundle.Bundle{}
	if err := entity.UnmarshalJSON(s.Bundle); err != nil {
		return nil, nil, reason{unread, fmt.Sprintf("a bundle of it cannot be read: %.200v", err)}
	}
	if entity.GetVerificationMaterial().GetPublicKey() != nil {
		return nil, nil, reason{byKey, "its signatures are made with keys"}
	}
	if entity.GetDsseEnvelope() == nil {
		return nil, nil, reason{unread, "a bundle of it has no statement about an image"}
	}
	return entity, verify.WithArtifactDigest("sha256", c.digest), reason{}
}
