package clusterfile

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/trustroot"
)

// Files reads a file that a policy names by its path.
type Files func(path string) ([]byte, error)

// imagesFile says which container images jobs may have.
type imagesFile struct {
	Allow       []string           `toml:"allow"`
	Deny        []string           `toml:"deny"`
	Barred      []string           `toml:"barred"`
	TrustedRoot string             `toml:"trusted_root"`
	Signed      []signedImagesFile `toml:"signed"`
}

type signedImagesFile struct {
	Images     []string            `toml:"images"`
	Keys       []string            `toml:"keys"`
	Identities []imageIdentityFile `toml:"identities"`
}

// imageIdentityFile has the words of cosign verify.
type imageIdentityFile struct {
	Subject       string `toml:"certificate_identity"`
	SubjectRegexp string `toml:"certificate_identity_regexp"`
	Issuer        string `toml:"certificate_oidc_issuer"`
	IssuerRegexp  string `toml:"certificate_oidc_issuer_regexp"`
	Predicate     string `toml:"predicate_type"`
}

// ParseImages reads a file that has [images] of cluster.toml and nothing else: an owner's
// rules for guests.
func ParseImages(text []byte) (*pb.ImageRules, error) {
	var file struct {
		Images imagesFile `toml:"images"`
	}
	decoder := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, tomlError(err)
	}
	if file.Images.TrustedRoot != "" {
		return nil, errors.New("[images] trusted_root is the site's: leave it out, and ask an administrator to add what it lacks")
	}
	rules, err := file.Images.rules(nil, spec.OwnerRules)
	if err == nil && rules == nil {
		err = errors.New("there are no rules in it: write [images] and allow = [...], as in cluster.toml")
	}
	return rules, err
}

// rules are nil if nothing is said.
func (f *imagesFile) rules(files Files, of spec.RulesOf) (*pb.ImageRules, error) {
	if len(f.Allow)+len(f.Deny)+len(f.Barred)+len(f.Signed)+len(f.TrustedRoot) == 0 {
		return nil, nil
	}
	rules := &pb.ImageRules{Allow: f.Allow, Deny: f.Deny, Barred: f.Barred}
	for i := range f.Signed {
		rules.Signed = append(rules.Signed, f.Signed[i].message())
	}
	if f.TrustedRoot != "" {
		var err error
		if rules.TrustedRoot, err = readTrustedRoot(f.TrustedRoot, files); err != nil {
			return nil, fmt.Errorf("[images] trusted_root = %q: %w", f.TrustedRoot, err)
		}
	}
	return rules, spec.CheckImageRules(rules, of)
}

func (f *signedImagesFile) message() *pb.SignedImages {
	signed := &pb.SignedImages{Images: f.Images, Keys: f.Keys}
	for _, i := range f.Identities {
		signed.Identities = append(signed.Identities, &pb.ImageIdentity{
			CertificateIdentity: i.Subject, CertificateIdentityRegexp: i.SubjectRegexp,
			CertificateOidcIssuer: i.Issuer, CertificateOidcIssuerRegexp: i.IssuerRegexp, PredicateType: i.Predicate,
		})
	}
	return signed
}

// readTrustedRoot makes sure that a root could be used before it is pinned.
func readTrustedRoot(path string, files Files) ([]byte, error) {
	if files == nil {
		return nil, errors.New("no file is read here")
	}
	text, err := files(path)
	if err != nil {
		return nil, err
	}
	if _, err := trustroot.Parse(text); err != nil {
		return nil, fmt.Errorf("%w: pin the file that cosign trusted-root create, or whoever runs your Fulcio, gives", err)
	}
	return trustroot.Compact(text)
}
