package sign

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
)

func newKey(t testing.TB) (*ecdsa.PrivateKey, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestVerify(t *testing.T) {
	ours, public := newKey(t)
	theirs, _ := newKey(t)
	digest, other := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	good, err := Sign("lab/x", digest, ours)
	if err != nil {
		t.Fatal(err)
	}
	strange, _ := Sign("lab/x", digest, theirs)
	moved, _ := Sign("lab/x", other, ours)
	bundle, elsewhere := bundleOf(t, ours, SignaturePredicate, digest), bundleOf(t, ours, SignaturePredicate, other)
	swapped := Signed{Bundle: bytes.Replace(bundle.Bundle, payloadIn(t, bundle), payloadIn(t, elsewhere), 1)}
	changed := Signed{Payload: []byte(strings.Replace(string(moved.Payload), other, digest, 1)), Signature: moved.Signature}
	for name, test := range map[string]struct {
		signatures []Signed
		want       string
	}{
		"good":             {[]Signed{strange, good}, ""},
		"none":             {nil, "no signature"},
		"by others":        {[]Signed{strange}, "others have signed"},
		"of another image": {[]Signed{moved}, "no signature"},
		"changed":          {[]Signed{changed}, "others have signed"},
		"a bundle":         {[]Signed{strange, bundle}, ""},
		"another's bundle": {[]Signed{bundleOf(t, theirs, SignaturePredicate, digest)}, "others have signed"},
		"of another in it": {[]Signed{elsewhere}, "no signature"},
		"an attestation":   {[]Signed{bundleOf(t, ours, "https://slsa.dev/provenance/v1", digest)}, "no signature"},
		"changed in it":    {[]Signed{{Bundle: bytes.Replace(elsewhere.Bundle, payloadIn(t, elsewhere), payloadIn(t, bundle), 1)}}, "others have signed"},
		"changed away":     {[]Signed{swapped}, "no signature"},
		"no bundle":        {[]Signed{{Bundle: []byte("{")}}, "no signature"},
		"no JSON":          {[]Signed{{Payload: []byte("x"), Signature: good.Signature}}, "no signature"},
	} {
		err := Verify(digest, []string{"no key", public}, test.signatures)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if err := Verify(digest, nil, []Signed{good}); err == nil {
		t.Error("without a key it is good")
	}
}

// bundleOf is what newer versions of cosign make with a key.
func bundleOf(t testing.TB, key *ecdsa.PrivateKey, predicate, digest string) Signed {
	t.Helper()
	payload := fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q}}],"predicateType":%q}`, strings.TrimPrefix(digest, "sha256:"), predicate)
	sum := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 28 application/vnd.in-toto+json %d %s", len(payload), payload))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{
		"mediaType": BundleType + ".v0.3+json", "verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": "x"}},
		"dsseEnvelope": map[string]any{"payload": payload, "payloadType": "application/vnd.in-toto+json", "signatures": []any{map[string]any{"sig": signature}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return Signed{Bundle: text}
}

// payloadIn is the payload as a bundle has it.
func payloadIn(t testing.TB, s Signed) []byte {
	t.Helper()
	var bundle struct {
		Envelope struct {
			Payload json.RawMessage `json:"payload"`
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(s.Bundle, &bundle); err != nil {
		t.Fatal(err)
	}
	return bundle.Envelope.Payload
}

func FuzzVerify(f *testing.F) {
	key, public := newKey(f)
	digest := "sha256:" + strings.Repeat("1", 64)
	good, err := Sign("lab/x", digest, key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good.Payload, good.Signature)
	f.Fuzz(func(t *testing.T, text, signature []byte) {
		if Verify(digest, []string{public}, []Signed{{Payload: text, Signature: signature}}) == nil && string(text) != string(good.Payload) {
			t.Error("a forged signature is good")
		}
	})
}
