// Package sign checks the signatures that cosign makes of container images with a key,
// and makes such ones. It asks nobody: a signature counts if the key is the right one.
package sign

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
)

// Annotation has the signature, in base64, of a layer of an image's signatures.
const Annotation = "dev.cosignproject.cosign/signature"

// MediaType is that of such a layer, which is what was signed.
const MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"

// MaxPayloadBytes bounds what was signed, and MaxSignatures how many are looked at.
const (
	MaxPayloadBytes = 1 << 20
	MaxSignatures   = 64
)

// ErrUnsigned is returned, wrapped, for an image that none of the keys has signed.
var ErrUnsigned = errors.New("it is not signed by any of the keys that its name needs")

// Signed is one signature.
type Signed struct {
	Payload   []byte `json:"payload"` // what was signed
	Signature []byte `json:"signature"`
}

// payload is what cosign signs: the simple signing format of containers/image.
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

const signatureType = "cosign container image signature"

// Tag is where a registry has the signatures of an image.
func Tag(digest string) string {
	const colon = len("sha256")
	if len(digest) <= colon {
		return ""
	}
	return digest[:colon] + "-" + digest[colon+1:] + ".sig"
}

// Verify answers nil if one of the keys, in PEM, has signed the image with this digest.
func Verify(digest string, keys []string, signatures []Signed) error {
	said := false
	for _, s := range signatures[:min(len(signatures), MaxSignatures)] {
		var p payload
		if len(s.Payload) > MaxPayloadBytes || json.Unmarshal(s.Payload, &p) != nil || p.Critical.Type != signatureType || p.Critical.Image.Digest != digest {
			continue
		}
		said = true
		for _, text := range keys {
			key, err := parseKey(text)
			if err == nil && verifies(key, s) {
				return nil
			}
		}
	}
	if said {
		return fmt.Errorf("%w: others have signed it", ErrUnsigned)
	}
	return fmt.Errorf("%w: there is no signature of it", ErrUnsigned)
}

func parseKey(text string) (crypto.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("it is no key in PEM")
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}

func verifies(key crypto.PublicKey, s Signed) bool {
	sum := sha256.Sum256(s.Payload)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], s.Signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, s.Payload, s.Signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], s.Signature) == nil
	}
	return false
}

// Sign makes a signature as cosign sign --key does.
func Sign(reference, digest string, key *ecdsa.PrivateKey) (Signed, error) {
	var p payload
	p.Critical.Identity.Reference, p.Critical.Image.Digest, p.Critical.Type = reference, digest, signatureType
	text, err := json.Marshal(p)
	if err != nil {
		return Signed{}, err
	}
	sum := sha256.Sum256(text)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	return Signed{Payload: text, Signature: signature}, err
}
