package roots

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gleaner-hpc/gleaner/oci/ref"
	"github.com/gleaner-hpc/gleaner/oci/sign"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/test/registry/image"
	"github.com/gleaner-hpc/gleaner/test/registry/sigstore"
)

// TestKeyless: in both layouts, from a registry that says who refers to an image and from
// one that does not, by a process that is nobody.
func TestKeyless(t *testing.T) {
	c, u, s := newCache(t), person(t, 70_001), newSite(t)
	fulcio, err := sigstore.New(time.Now())
	must(t, err)
	root, err := fulcio.Root()
	must(t, err)
	by := sigstore.Signer{Subject: "release@lab.example", Issuer: "https://token.lab.example", At: time.Now().Add(-time.Hour)}
	identity := func(subject string) Signers {
		return Signers{Root: root, Of: spec.SiteRules, Signers: spec.Signers{Identities: []*pb.ImageIdentity{{CertificateIdentity: subject, CertificateOidcIssuer: by.Issuer}}}}
	}
	asked := 0
	s.between = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/manifests/sha256-") {
			asked++
		}
		return false
	}
	push := func(s *site, path string) (ref.Ref, name.Reference, v1.Hash) {
		r := s.push(t, path, imageOf(t, layerOf(t, tarOf(t, entry{name: "x", content: s.host + path}))))
		at, err := name.ParseReference(s.host + "/" + path)
		must(t, err)
		digest, err := v1.NewHash(r.Digest)
		must(t, err)
		return r, at, digest
	}
	check := func(r ref.Ref, by Signers) error {
		return c.Signed(t.Context(), u, r, by, func(string) {})
	}

	beside, at, digest := push(s, "lab/beside:1")
	signed, err := fulcio.Sign(by, at.Context().Name(), beside.Digest)
	must(t, err)
	must(t, image.PutBeside(at, digest, signed))
	must(t, check(beside, identity(by.Subject)))
	before := asked
	must(t, check(beside, identity(by.Subject)))
	if asked != before {
		t.Error("what was found out is asked again")
	}
	if err := check(beside, identity("other@lab.example")); !errors.Is(err, ErrUnsigned) || !strings.Contains(err.Error(), `"release@lab.example" of "https://token.lab.example" has signed it (signed in [images]): have it signed with cosign sign as other@lab.example of https://token.lab.example`) {
		t.Errorf("another identity: %v", err)
	}
	another, err := sigstore.New(time.Now())
	must(t, err)
	wanted := identity(by.Subject)
	wanted.Root, err = another.Root()
	must(t, err)
	if err := check(beside, wanted); !errors.Is(err, ErrUnsigned) || !strings.Contains(err.Error(), "no log of the trusted root") {
		t.Errorf("another root: %v", err)
	}
	wanted.Root = nil
	if err := check(beside, wanted); !errors.Is(err, ErrUnsigned) || !strings.Contains(err.Error(), "the site has no trusted root") {
		t.Errorf("no root: %v", err)
	}

	for _, s := range []*site{s, newSite(t, registry.WithReferrersSupport(true))} {
		r, at, digest := push(s, "lab/referring:1")
		bundle, err := fulcio.Attest(by, r.Digest, sign.SignaturePredicate)
		must(t, err)
		must(t, image.Refer(at, digest, bundle.Bundle))
		must(t, check(r, identity(by.Subject)))
	}

	bare, _, _ := push(s, "lab/bare:1")
	both := identity(by.Subject)
	both.Keys = []string{"-----BEGIN PUBLIC KEY-----"}
	if err := check(bare, both); !errors.Is(err, ErrUnsigned) || !strings.Contains(err.Error(), "there is no signature of it; there is no keyless signature of it (signed in [images]): have it signed with cosign sign --key, or cosign sign as release@lab.example") {
		t.Errorf("nothing: %v", err)
	}
}
