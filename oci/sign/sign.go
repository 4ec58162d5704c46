// Package sign checks the signatures that cosign makes of container images with a key,
// and makes such ones. It asks nobody: a signature counts if the key is the right one.
// Those without a key are package keyless' to check, which asks nobody either.
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

// Annotations of a layer of an image's signatures.
const (
	Annotation            = "dev.cosignproject.cosign/signature" // in base64
	CertificateAnnotation = "dev.sigstore.cosign/certificate"    // in PEM, of a keyless one
	LogAnnotation         = "dev.sigstore.cosign/bundle"         // the entry of a transparency log, as JSON
	TimestampAnnotation   = "dev.sigstore.cosign/rfc3161timestamp"
)

// MediaType is that of such a layer, which is what was signed.
const MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"

// BundleType is how the type begins of what refers to an image and is a bundle of Sigstore:
// a signature or an attestation with all that proves it.
const BundleType = "application/vnd.dev.sigstore.bundle"

// MaxPayloadBytes bounds what was signed, MaxSignatures how many are looked at, and
// MaxBytes all of them together.
const (
	MaxPayloadBytes = 1 << 20
	MaxSignatures   = 64
	MaxBytes        = 8 << 20
)

// ErrUnsigned is returned, wrapped, for an image that nobody has signed who must have.
var ErrUnsigned = errors.New("it is not signed by any of those that its name needs")

// Signed is one signature: a bundle, or what cosign keeps in a layer and its annotations.
type Signed struct {
	Bundle      []byte `json:"bundle,omitempty"`
	Payload     []byte `json:"payload,omitempty"` // what was signed
	Signature   []byte `json:"signature,omitempty"`
	Certificate string `json:"certificate,omitempty"` // in PEM
	LogEntry    string `json:"log_entry,omitempty"`   // as JSON
	Timestamp   string `json:"timestamp,omitempty"`   // likewise
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
	for i := range signatures[:min(len(signatures), MaxSignatures)] {
		message, signature := signatures[i].message(digest)
		if message == nil {
			continue
		}
		said = true
		for _, text := range keys {
			key, err := parseKey(text)
			if err == nil && verifies(key, message, signature) {
				return nil
			}
		}
	}
	if said {
		return fmt.Errorf("%w: others have signed it", ErrUnsigned)
	}
	return fmt.Errorf("%w: there is no signature of it", ErrUnsigned)
}

// Names reports whether what was signed is the image with this digest. It is not said who
// has signed it.
func (s *Signed) Names(digest string) bool {
	var p payload
	return len(s.Payload) <= MaxPayloadBytes && json.Unmarshal(s.Payload, &p) == nil && p.Critical.Type == signatureType && p.Critical.Image.Digest == digest
}

// message is what was signed, if that is the image with this digest, and the signature.
func (s *Signed) message(digest string) (message, signature []byte) {
	switch {
	case s.Bundle != nil:
		return bundleMessage(s.Bundle, digest)
	case s.Names(digest):
		return s.Payload, s.Signature
	}
	return nil, nil
}

func parseKey(text string) (crypto.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("it is no key in PEM")
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}

func verifies(key crypto.PublicKey, message, signature []byte) bool {
	sum := sha256.Sum256(message)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

// Payload is what cosign signs of an image.
func Payload(reference, digest string) ([]byte, error) {
	var p payload
	p.Critical.Identity.Reference, p.Critical.Image.Digest, p.Critical.Type = reference, digest, signatureType
	return json.Marshal(p)
}

// Sign makes a signature as cosign sign --key does.
func Sign(reference, digest string, key *ecdsa.PrivateKey) (Signed, error) {
	text, err := Payload(reference, digest)
	if err != nil {
		return Signed{}, err
	}
	sum := sha256.Sum256(text)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	return Signed{Payload: text, Signature: signature}, err
}
