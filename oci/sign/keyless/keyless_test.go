package keyless

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/oci/sign"
	"github.com/gleaner-hpc/gleaner/test/registry/sigstore"
)

const (
	subject    = "https://git.lab.example/lab/tools/release.yml@refs/tags/v1"
	issuer     = "https://token.lab.example"
	digest     = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	other      = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	provenance = "https://slsa.dev/provenance/v1"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// signedMonthsAgo is a time at which certificates were good that have ended long ago.
var signedMonthsAgo = time.Now().Add(-100 * 24 * time.Hour).Truncate(time.Second)

func TestVerify(t *testing.T) {
	site := must[*sigstore.Site](t)(sigstore.New(time.Now()))
	root := must[[]byte](t)(site.Root())
	signer := sigstore.Signer{Subject: subject, Issuer: issuer, At: signedMonthsAgo}
	beside := must[sign.Signed](t)(site.Sign(signer, "lab/x", digest))
	bundle := must[sign.Signed](t)(site.Attest(signer, digest, sign.SignaturePredicate))
	attested := must[sign.Signed](t)(site.Attest(signer, digest, provenance))
	elsewhere := must[*sigstore.Site](t)(sigstore.New(time.Now()))
	elsewhereRoot := must[[]byte](t)(elsewhere.Root())
	ended := *site
	ended.AuthorityUntil = signedMonthsAgo.Add(-time.Hour)
	closed := *site
	closed.LogUntil = signedMonthsAgo.Add(-time.Hour)
	hidden := *site
	hidden.Hidden = true
	unlisted := hidden
	unlisted.NoCertLog = true
	clocked := *site
	clocked.NoLog = true
	stamped := must[sign.Signed](t)(clocked.Sign(signer, "lab/x", digest))
	otherStamp := stamped
	otherStamp.Timestamp = must[sign.Signed](t)(clocked.Sign(signer, "lab/x", digest)).Timestamp
	unlogged := beside
	unlogged.LogEntry = ""
	tampered := beside
	tampered.Payload = bytes.Replace(beside.Payload, []byte("lab/x"), []byte("lab/y"), 1)
	borrowed := beside // the signature of another image, with what is said of this one
	borrowed.Signature = must[sign.Signed](t)(site.Sign(signer, "lab/x", other)).Signature

	right := sign.Identity{Subject: subject, Issuer: issuer}
	for _, test := range []struct {
		name  string
		root  []byte
		wants sign.Identity
		of    []sign.Signed
		why   string // "" = it has signed it
	}{
		{"cosign's layout", root, right, []sign.Signed{beside}, ""},
		{"a bundle", root, right, []sign.Signed{bundle}, ""},
		{"by expressions", root, sign.Identity{SubjectRegexp: `^https://git\.lab\.example/lab/`, IssuerRegexp: `^https://token\.`}, []sign.Signed{bundle}, ""},
		{"the second of three", root, right, []sign.Signed{{Bundle: []byte("{")}, beside, unlogged}, ""},
		{"an attestation", root, sign.Identity{Subject: subject, Issuer: issuer, Predicate: provenance}, []sign.Signed{attested}, ""},
		{"a certificate in no log, and none is listed", must[[]byte](t)(unlisted.Root()), right, []sign.Signed{must[sign.Signed](t)(unlisted.Sign(signer, "lab/x", digest))}, ""},
		{"a clock instead of a log", must[[]byte](t)(clocked.Root()), right, []sign.Signed{stamped}, ""},

		{"the clock's word for another signature", must[[]byte](t)(clocked.Root()), right, []sign.Signed{otherStamp}, "no log and no timestamping authority of the trusted root says when it was signed"},
		{"no clock's word", must[[]byte](t)(clocked.Root()), right, []sign.Signed{beside}, "no log and no timestamping authority of the trusted root says when it was signed"},
		{"a clock that the root does not list", root, right, []sign.Signed{stamped}, "no log of the trusted root proves its signature"},
		{"after the certificate had ended, by the clock", must[[]byte](t)(clocked.Root()), right, []sign.Signed{must[sign.Signed](t)(late(&clocked, signer))}, "or was not in force then itself"},
		{"nothing", root, right, nil, "there is no keyless signature of it"},
		{"an attestation for a signature", root, right, []sign.Signed{attested}, `of "https://token.lab.example" has made an attestation "https://slsa.dev/provenance/v1"`},
		{"a signature for an attestation", root, sign.Identity{Subject: subject, Issuer: issuer, Predicate: provenance}, []sign.Signed{bundle, beside}, `of "https://token.lab.example" has signed it`},
		{"another identity", root, sign.Identity{Subject: subject + "0", Issuer: issuer}, []sign.Signed{beside, bundle}, `"` + subject + `" of "https://token.lab.example" has signed it`},
		{"another issuer", root, sign.Identity{Subject: subject, Issuer: issuer + "0"}, []sign.Signed{beside, bundle}, `of "https://token.lab.example" has signed it`},
		{"another issuer by expression", root, sign.Identity{Subject: subject, IssuerRegexp: "^accounts"}, []sign.Signed{beside}, "has signed it"},
		{"another root", elsewhereRoot, right, []sign.Signed{beside, bundle}, "no log of the trusted root proves its signature"},
		{"another image", root, right, []sign.Signed{must[sign.Signed](t)(site.Sign(signer, "lab/x", other))}, "what is signed is another image"},
		{"another image in a bundle", root, right, []sign.Signed{must[sign.Signed](t)(site.Attest(signer, other, sign.SignaturePredicate))}, "its signature is not of this image"},
		{"changed", root, right, []sign.Signed{tampered}, "does not match artifact"},
		{"a changed statement", root, right, []sign.Signed{withStatement(t, must[sign.Signed](t)(site.Attest(signer, other, sign.SignaturePredicate)))}, "no log of the trusted root proves its signature"},
		{"a borrowed signature", root, right, []sign.Signed{borrowed}, "no log of the trusted root proves its signature"},
		{"no entry in the log", root, right, []sign.Signed{unlogged}, "no log of the trusted root proves its signature: not enough verified log entries"},
		{"an authority that had ended", must[[]byte](t)(ended.Root()), right, []sign.Signed{beside, bundle}, "its certificate is by no authority of the trusted root that was in force when it was signed, " + signedMonthsAgo.UTC().Format(time.RFC3339)},
		{"a log that had ended", must[[]byte](t)(closed.Root()), right, []sign.Signed{beside}, "no log of the trusted root proves its signature"},
		{"a certificate in no log", root, right, []sign.Signed{must[sign.Signed](t)(hidden.Sign(signer, "lab/x", digest))}, "no certificate log of the trusted root has its certificate"},
		{"a certificate that had ended", root, right, []sign.Signed{must[sign.Signed](t)(late(site, signer))}, "no log of the trusted root proves its signature: integrated time outside certificate validity"},
		{"no root", []byte("{}"), right, []sign.Signed{beside}, "the trusted root cannot be read"},
		{"by a key", root, right, []sign.Signed{{Payload: beside.Payload, Signature: beside.Signature}}, "its signatures are made with keys"},
	} {
		got := Verify(&sign.Question{Digest: digest, Root: test.root, Identities: []sign.Identity{{Subject: "x", Issuer: "y"}, test.wants}, Signatures: test.of})
		if wants := map[bool]int{true: 1, false: -1}[test.why == ""]; got.Identity != wants || !strings.Contains(got.Why, test.why) {
			t.Errorf("%s: %+v, want %q", test.name, got, test.why)
		}
	}
}

// withStatement has the bundle of another image say that it is of this one.
func withStatement(t *testing.T, s sign.Signed) sign.Signed {
	t.Helper()
	var bundle map[string]any
	if err := json.Unmarshal(s.Bundle, &bundle); err != nil {
		t.Fatal(err)
	}
	envelope := bundle["dsseEnvelope"].(map[string]any)
	var statement []byte
	text, _ := json.Marshal(envelope["payload"])
	if err := json.Unmarshal(text, &statement); err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(statement, []byte(strings.TrimPrefix(other, "sha256:")), []byte(strings.TrimPrefix(digest, "sha256:")), 1)
	if bytes.Equal(changed, statement) {
		t.Fatal("there is nothing to change")
	}
	envelope["payload"] = changed
	return sign.Signed{Bundle: must[[]byte](t)(json.Marshal(bundle))}
}

// late signs with a certificate an hour after it was issued: the log's entry is of that
// time.
func late(site *sigstore.Site, by sigstore.Signer) (sign.Signed, error) {
	return site.SignLater(by, "lab/x", digest, time.Hour)
}

// TestVerifyOfWhatStrangersWrote: signatures of another image, with bytes changed, left out
// and repeated, are never taken for one of this image, and never end the check: the good one
// behind them is found. It is no fuzz test, because the library is too large for those.
func TestVerifyOfWhatStrangersWrote(t *testing.T) {
	site := must[*sigstore.Site](t)(sigstore.New(time.Now()))
	root := must[[]byte](t)(site.Root())
	signer := sigstore.Signer{Subject: subject, Issuer: issuer, At: signedMonthsAgo}
	good := must[sign.Signed](t)(site.Sign(signer, "lab/x", digest))
	beside := must[sign.Signed](t)(site.Sign(signer, "lab/x", other))
	beside.Payload = must[[]byte](t)(sign.Payload("lab/x", digest))
	bundle := must[sign.Signed](t)(site.Attest(signer, other, sign.SignaturePredicate)).Bundle
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		changed := beside
		changed.LogEntry, changed.Certificate = string(change(random, []byte(beside.LogEntry))), string(change(random, []byte(beside.Certificate)))
		strange := []sign.Signed{{Bundle: change(random, bundle)}, changed, beside}
		question := sign.Question{Digest: digest, Root: root, Identities: []sign.Identity{{Subject: subject, Issuer: issuer}}, Signatures: strange}
		if got := Verify(&question); got.Identity != -1 || got.Why == "" {
			t.Fatalf("nobody has signed it: %+v: %+v", got, strange)
		}
		question.Signatures = append(strange, good)
		if got := Verify(&question); got.Identity != 0 {
			t.Fatalf("who has signed it is not found: %+v: %+v", got, strange)
		}
	}
}

// change does something to a few bytes.
func change(random *rand.Rand, text []byte) []byte {
	text = bytes.Clone(text)
	for range 1 + random.IntN(3) {
		i, j := random.IntN(len(text)), random.IntN(len(text))
		switch i, j = min(i, j), max(i, j); random.IntN(3) {
		case 0:
			text[i] = byte(random.IntN(256))
		case 1:
			text = slices.Delete(text, i, min(i+random.IntN(20), j))
		default:
			text = slices.Insert(text, i, text[i:min(i+20, j)]...)
		}
	}
	return text
}
