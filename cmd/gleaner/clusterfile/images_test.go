package clusterfile

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/test/registry/sigstore"
)

func TestTrustedRoot(t *testing.T) {
	site, err := sigstore.New(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	root, err := site.Root()
	if err != nil {
		t.Fatal(err)
	}
	files := func(path string) ([]byte, error) {
		switch path {
		case "roots/pinned.json":
			return root, nil
		case "roots/other.json":
			return []byte(`{"mediaType": "x"}`), nil
		}
		return nil, os.ErrNotExist
	}
	text := `
[[partition]]
name = "main"
[images]
trusted_root = "roots/pinned.json"
[[images.signed]]
images = ["lab.example/**"]
identities = [{ certificate_identity_regexp = "^https://git[.]lab[.]example/", certificate_oidc_issuer = "https://token.lab.example", predicate_type = "https://slsa.dev/provenance/v1" }]
`
	policy, err := ParseWith([]byte(text), files)
	if err != nil {
		t.Fatal(err)
	}
	identity := policy.GetImages().GetSigned()[0].GetIdentities()[0]
	if pinned := policy.Images.TrustedRoot; len(pinned) == 0 || len(pinned) >= len(root) || identity.CertificateIdentityRegexp != "^https://git[.]lab[.]example/" || identity.CertificateOidcIssuer != "https://token.lab.example" || identity.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("%d bytes of %d, %v", len(pinned), len(root), identity)
	}
	for name, test := range map[string]struct{ from, to, want string }{
		"no root":     {`trusted_root = "roots/pinned.json"`, "", "identities need trusted_root"},
		"no file":     {"pinned", "none", `[images] trusted_root = "roots/none.json": file does not exist`},
		"no such key": {"predicate_type", "predicate", "predicate"},
		"no root in":  {"pinned", "other", "it is no trusted root of Sigstore (trusted_root.json): its mediaType is"},
	} {
		if _, err := ParseWith([]byte(strings.Replace(text, test.from, test.to, 1)), files); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "no file is read here") {
		t.Errorf("a policy without files: %v", err)
	}
	own := text[strings.Index(text, "[images]"):]
	if _, err := ParseImages([]byte(own)); err == nil || !strings.Contains(err.Error(), "trusted_root is the site's") {
		t.Errorf("an owner's root: %v", err)
	}
	rules, err := ParseImages([]byte(strings.Replace(own, `trusted_root = "roots/pinned.json"`, "", 1)))
	if err != nil || len(rules.GetSigned()[0].GetIdentities()) != 1 {
		t.Errorf("an owner's identities: %v, %v", rules, err)
	}
}
