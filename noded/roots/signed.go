package roots

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/oci/ref"
	"github.com/gleaner-hpc/gleaner/oci/sign"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// ErrUnsigned is returned, wrapped, for an image that none of the keys has signed.
var ErrUnsigned = sign.ErrUnsigned

// Signed makes sure that one of the keys has signed a pinned image, as some rules want. What a key was found to
// have signed is kept: an image that is in the cache starts without a registry.
func (c *Cache) Signed(ctx context.Context, u *User, r ref.Ref, keys []string, of spec.RulesOf, tell Progress) error {
	if len(keys) == 0 {
		return nil
	}
	if err := c.makeDirs(); err != nil {
		return err
	}
	path := c.signedPath(r.Digest)
	var known []string // hashes of keys
	if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &known) == nil {
		if slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(known, keyHash(key)) }) {
			return nil
		}
	}
	tell("asking for the signatures of container image " + r.Place())
	var out clippedDocuments
	p, err := c.fetcher(ctx, u, &out, "signatures", r.String())
	if err != nil {
		return err
	}
	if err := p.wait(); err != nil {
		return c.fault(ctx, r, err)
	}
	var signatures []sign.Signed
	if err := json.Unmarshal(out.Bytes(), &signatures); err != nil {
		return &Error{r.Place(), fmt.Errorf("its signatures cannot be read: %w", err)}
	}
	for _, key := range keys {
		if err = sign.Verify(r.Digest, []string{key}, signatures); err == nil {
			return c.keepSigned(path, append(known, keyHash(key)))
		}
	}
	return &Error{r.Place(), fmt.Errorf("%w (signed in %s): have it signed with cosign sign --key, or take one that is", err, of)}
}

func (c *Cache) keepSigned(path string, hashes []string) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return writeJSON(path, hashes)
}

func keyHash(key string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(key)))
	return hex.EncodeToString(sum[:])
}
