package sign

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
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
