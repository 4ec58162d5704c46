package roots

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/oci/ref"
	"github.com/gleaner-hpc/gleaner/oci/sign"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// ErrUnsigned is returned, wrapped, for an image that nobody has signed who must have.
var ErrUnsigned = sign.ErrUnsigned

// Signers are the keys and identities of which one must have signed an image, and what says so.
type Signers struct {
	spec.Signers
	Root []byte // the site's trusted root, for identities
	Of   spec.RulesOf
}

// Signed makes sure that one of those has signed a pinned image whom some rules want. Who was found to
// have signed it is kept: an image that is in the cache starts without a registry.
func (c *Cache) Signed(ctx context.Context, u *User, r ref.Ref, by Signers, tell Progress) error {
	if !by.Any() {
		return nil
	}
	if err := c.makeDirs(); err != nil {
		return err
	}
	path := c.signedPath(r.Digest)
	var known []string // hashes of keys and identities
	if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &known) == nil {
		if slices.ContainsFunc(by.hashes(), func(hash string) bool { return slices.Contains(known, hash) }) {
			return nil
		}
	}
	tell("asking for the signatures of container image " + r.Place())
	signatures, err := c.signatures(ctx, u, r)
	if err != nil {
		return err
	}
	var why []string
	for _, key := range by.Keys {
		if err = sign.Verify(r.Digest, []string{key}, signatures); err == nil {
			return c.keepSigned(path, append(known, keyHash(key)))
		}
	}
	if err != nil {
		why = append(why, strings.TrimPrefix(err.Error(), ErrUnsigned.Error()+": "))
	}
	if len(by.Identities) > 0 {
		answer, err := c.keyless(ctx, r, by, signatures)
		if err != nil {
			return err
		}
		if answer.Identity >= 0 && answer.Identity < len(by.Identities) {
			return c.keepSigned(path, append(known, by.hash(answer.Identity)))
		}
		why = append(why, answer.Why)
	}
	return &Error{r.Place(), fmt.Errorf("%w: %s (signed in %s): have it signed with %s, or take one that is", ErrUnsigned, strings.Join(why, "; "), by.Of, by.remedy())}
}

// remedy says how it is signed by one of them.
func (s *Signers) remedy() string {
	var ways []string
	if len(s.Keys) > 0 {
		ways = append(ways, "cosign sign --key")
	}
	for _, identity := range s.Identities {
		way := "cosign sign as "
		if identity.GetPredicateType() != "" {
			way = "cosign attest as "
		}
		ways = append(ways, way+spec.IdentityText(identity))
	}
	const shown = 4
	if len(ways) > shown {
		ways = append(ways[:shown], fmt.Sprintf("as one of %d others", len(ways)-shown))
	}
	return strings.Join(ways, ", or ")
}

// signatures reads those of an image as the user.
func (c *Cache) signatures(ctx context.Context, u *User, r ref.Ref) (signatures []sign.Signed, err error) {
	var out clippedDocuments
	p, err := c.fetcher(ctx, u, &out, "signatures", r.String())
	if err != nil {
		return nil, err
	}
	if err := p.wait(); err != nil {
		return nil, c.fault(ctx, r, err)
	}
	if err := json.Unmarshal(out.Bytes(), &signatures); err != nil {
		return nil, &Error{r.Place(), fmt.Errorf("its signatures cannot be read: %w", err)}
	}
	return signatures, nil
}

// keyless asks a goci that is nobody, has no network and no files, who has signed it: what
// the user's own goci says of that proves nothing.
func (c *Cache) keyless(ctx context.Context, r ref.Ref, by Signers, signatures []sign.Signed) (*sign.Answer, error) {
	if len(by.Root) == 0 {
		return &sign.Answer{Identity: -1, Why: "the site has no trusted root to compare identities with (trusted_root in [images])"}, nil
	}
	question := sign.Question{Digest: r.Digest, Root: by.Root, Signatures: signatures}
	for _, i := range by.Identities {
		question.Identities = append(question.Identities, sign.Identity{
			Subject: i.GetCertificateIdentity(), SubjectRegexp: i.GetCertificateIdentityRegexp(),
			Issuer: i.GetCertificateOidcIssuer(), IssuerRegexp: i.GetCertificateOidcIssuerRegexp(), Predicate: i.GetPredicateType(),
		})
	}
	text, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	empty, err := os.Open(c.path(emptyDir))
	if err != nil {
		return nil, err
	}
	defer empty.Close()
	if err := empty.Chmod(0o755); err != nil { // for who has no rights here
		return nil, err
	}
	var out clippedDocuments
	p, err := c.unpacker(ctx, empty, bytes.NewReader(text), &out, "verify")
	if err != nil {
		return nil, err
	}
	if err := p.wait(); err != nil {
		return nil, c.fault(ctx, r, err)
	}
	answer := &sign.Answer{Identity: -1}
	if err := json.Unmarshal(out.Bytes(), answer); err != nil {
		return nil, errors.Join(errors.New("goci does not say who has signed it"), err)
	}
	return answer, nil
}

func (c *Cache) keepSigned(path string, hashes []string) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return writeJSON(path, hashes)
}

// hashes are those of all of them.
func (s *Signers) hashes() (all []string) {
	for _, key := range s.Keys {
		all = append(all, keyHash(key))
	}
	for i := range s.Identities {
		all = append(all, s.hash(i))
	}
	return all
}

func keyHash(key string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(key)))
	return hex.EncodeToString(sum[:])
}

// hash is that of an identity and of the root that vouches for it: another root is asked
// again.
func (s *Signers) hash(i int) string {
	sum := sha256.New()
	root := sha256.Sum256(s.Root)
	sum.Write(root[:])
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(s.Identities[i]) // of texts, which are valid
	sum.Write(text)
	return hex.EncodeToString(sum.Sum(nil))
}
