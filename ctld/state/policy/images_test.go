package policy

import (
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestImagePolicy(t *testing.T) {
	const key = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYI\n-----END PUBLIC KEY-----\n"
	rules := &pb.ImageRules{
		Allow: []string{"lab.example/**"}, Deny: []string{"lab.example/old"}, Barred: []string{"sha256:" + strings.Repeat("1", 64)}, TrustedRoot: []byte("{}"),
		Signed: []*pb.SignedImages{
			{Images: []string{"lab.example/a"}, Keys: []string{key}},
			{Images: []string{"lab.example/b"}, Keys: []string{key}, Identities: []*pb.ImageIdentity{
				{CertificateIdentity: "release@lab.example", CertificateIdentityRegexp: "@lab", CertificateOidcIssuer: "https://token", CertificateOidcIssuerRegexp: "^https:", PredicateType: "https://slsa.dev/provenance/v1"},
				{CertificateIdentityRegexp: "^x$", CertificateOidcIssuer: "y"},
			}},
		},
	}
	policy := imagesFromMessage(rules)
	if back := policy.Message(); !proto.Equal(back, rules) {
		t.Errorf("%v, want %v", back, rules)
	}
	text, err := cbor.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	var read Images
	if err := cbor.Unmarshal(text, &read); err != nil || !proto.Equal(read.Message(), rules) {
		t.Errorf("as the log has it: %v, %v", read.Message(), err)
	}
	for key, want := range map[string]string{
		"signed": "lab.example/a (1 keys, the last ends in KoZIzj0CAQYI); lab.example/b (1 keys, the last ends in KoZIzj0CAQYI, " +
			"release@lab.example and /@lab/ of https://token and /^https:/ (attestation https://slsa.dev/provenance/v1), /^x$/ of y)",
		"trusted_root": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
	} {
		found := ""
		for _, s := range policy.settings() {
			if s.key == key {
				found = s.value
			}
		}
		if found != want {
			t.Errorf("%s: %q, want %q", key, found, want)
		}
	}
	if only := (&Images{Root: []byte("{}")}).Message(); only == nil {
		t.Error("a root alone, which owners need, is lost")
	}
}
