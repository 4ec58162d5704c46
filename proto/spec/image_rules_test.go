package spec

import (
	"slices"
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestImageProblem(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("1", 64)
	rules := &pb.ImageRules{
		Allow: []string{"docker.io/library/*", "lab.example/**", "oci:/shared/*"}, Deny: []string{"lab.example/old/*", "docker.io/library/debian:7"},
		Barred: []string{"sha256:" + strings.Repeat("2", 64)},
		Signed: []*pb.SignedImages{{Images: []string{"lab.example/signed/**", "oci:/shared/signed"}, Keys: []string{"k"}}},
	}
	for image, want := range map[string]string{
		"docker://index.docker.io/library/debian:12":               "",
		"docker://index.docker.io/library/debian:7":                `"docker.io/library/debian:7" (deny`,
		"docker://index.docker.io/library/a/b":                     "(allow",
		"docker://lab.example/a/b/c:1":                             "",
		"docker://lab.example.evil/a:1":                            "(allow",
		"docker://lab.example:5000/a:1":                            "(allow",
		"docker://lab.example/old/a:1":                             "(deny",
		"oci:/shared/tools:1":                                      "",
		"oci:/shared/../home/x":                                    "(allow",
		"oci:/shared/signed:1":                                     "only images of registries have signatures",
		"docker://lab.example/x@sha256:" + strings.Repeat("2", 64): "(barred",
	} {
		if !strings.Contains(image, "@") {
			image += digest
		}
		got := ImageProblem(rules, SiteRules, image)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
	if got := ImageProblem(rules, OwnerRules, "docker://lab.example/old/a:1"+digest); !strings.Contains(got, "(deny in the terms of its owner)") {
		t.Errorf("the owner's rule: %q", got)
	}
	if signers := SignersOf(rules, "docker://lab.example/signed/x:1"+digest); len(signers.Keys) != 1 {
		t.Errorf("%v", signers)
	}
	if ImageProblem(nil, SiteRules, "docker://x/y"+digest) != "" {
		t.Error("without rules an image is refused")
	}
}

func TestCheckSigners(t *testing.T) {
	good := &pb.ImageIdentity{CertificateIdentity: "release@lab.example", CertificateOidcIssuer: "https://token.lab.example"}
	rules := func(root string, identities ...*pb.ImageIdentity) *pb.ImageRules {
		return &pb.ImageRules{TrustedRoot: []byte(root), Signed: []*pb.SignedImages{{Images: []string{"lab.example/**"}, Identities: identities}}}
	}
	for name, test := range map[string]struct {
		rules *pb.ImageRules
		of    RulesOf
		want  string
	}{
		"one":              {rules("{}", good), SiteRules, ""},
		"an owner's":       {rules("", good), OwnerRules, ""},
		"no root":          {rules("", good), SiteRules, "identities need trusted_root"},
		"an owner's root":  {rules("{}", good), OwnerRules, "trusted_root is the site's"},
		"a large root":     {rules(strings.Repeat(" ", MaxTrustedRootBytes+1), good), SiteRules, "65537 bytes are more than 65536"},
		"nobody":           {rules("{}"), SiteRules, "or identities. One of the signers must have signed"},
		"no subject":       {rules("{}", &pb.ImageIdentity{CertificateOidcIssuer: "x"}), SiteRules, "certificate_identity, or certificate_identity_regexp, must say"},
		"no issuer":        {rules("{}", &pb.ImageIdentity{CertificateIdentityRegexp: "x"}), SiteRules, "certificate_oidc_issuer, or certificate_oidc_issuer_regexp, must say"},
		"a bad expression": {rules("{}", &pb.ImageIdentity{CertificateIdentityRegexp: "(", CertificateOidcIssuer: "x"}), SiteRules, "certificate_identity_regexp: error parsing regexp"},
		"a bad character":  {rules("{}", &pb.ImageIdentity{CertificateIdentity: "x", CertificateOidcIssuer: "\n"}), SiteRules, "certificate_oidc_issuer: \"\\n\" is longer"},
		"too many":         {rules("{}", slices.Repeat([]*pb.ImageIdentity{good}, MaxImageSigners+1)...), SiteRules, "65 identities are more than 64"},
	} {
		err := CheckImageRules(test.rules, test.of)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func FuzzImageRules(f *testing.F) {
	f.Add("lab.example/**", "docker://lab.example/a:1@sha256:0")
	f.Add("*", "oci:/x")
	f.Fuzz(func(t *testing.T, pattern, image string) {
		rules := &pb.ImageRules{Allow: []string{pattern}}
		if CheckImageRules(rules, SiteRules) == nil {
			if _, err := imagePattern(pattern); err != nil {
				t.Errorf("%q is accepted, and matches nothing: %v", pattern, err)
			}
		}
		ImageProblem(rules, SiteRules, image)
	})
}

func FuzzParseMounts(f *testing.F) {
	f.Add("/a:/b:ro,/c")
	f.Add("/a:/b:rw+ro")
	f.Fuzz(func(t *testing.T, text string) {
		mounts, err := ParseMounts(text)
		if err == nil {
			err = CheckMounts(mounts)
		}
		if err == nil && len(mounts) == 0 {
			t.Error("nothing is accepted")
		}
	})
}
