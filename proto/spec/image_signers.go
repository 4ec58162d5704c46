package spec

import (
	"fmt"
	"regexp"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// checkSigned refuses what nobody could have signed.
func checkSigned(all []*pb.SignedImages) error {
	keys, identities := 0, 0
	for _, signed := range all {
		if len(signed.GetImages()) == 0 || len(signed.GetKeys())+len(signed.GetIdentities()) == 0 {
			return fmt.Errorf("[[images.signed]] needs images (patterns of their names) and signers: keys (public keys) or identities. One of the signers must have signed an image")
		}
		for _, key := range signed.GetKeys() {
			if len(key) > maxKeyBytes || !strings.Contains(key, "-----BEGIN PUBLIC KEY-----") {
				return fmt.Errorf("[[images.signed]]: a key is the text of cosign.pub, -----BEGIN PUBLIC KEY----- and so on")
			}
		}
		for _, identity := range signed.GetIdentities() {
			if err := checkIdentity(identity); err != nil {
				return fmt.Errorf("[[images.signed]] identities: %w", err)
			}
		}
		keys += len(signed.GetKeys())
		identities += len(signed.GetIdentities())
	}
	switch {
	case keys > MaxImageKeys:
		return fmt.Errorf("[images]: %d keys are more than %d", keys, MaxImageKeys)
	case identities > MaxImageSigners:
		return fmt.Errorf("[images]: %d identities are more than %d", identities, MaxImageSigners)
	}
	return nil
}

// checkTrustedRoot makes sure that the site has what keyless signatures are compared with.
// What is in it is not looked at: every controller has to come to the same answer.
func checkTrustedRoot(rules *pb.ImageRules, of RulesOf) error {
	root := len(rules.GetTrustedRoot())
	switch {
	case root > MaxTrustedRootBytes:
		return fmt.Errorf("[images] trusted_root: %d bytes are more than %d", root, MaxTrustedRootBytes)
	case of == OwnerRules && root > 0:
		return fmt.Errorf("[images] trusted_root is the site's: leave it out, and ask an administrator to add what it lacks")
	case of == SiteRules && root == 0:
		for _, signed := range rules.GetSigned() {
			if len(signed.GetIdentities()) > 0 {
				return fmt.Errorf("[images]: identities need trusted_root, the path of the trusted_root.json whose authorities may have issued their certificates")
			}
		}
	}
	return nil
}

// checkIdentity refuses one that anybody is, or nobody.
func checkIdentity(identity *pb.ImageIdentity) error {
	if identity.GetCertificateIdentity() == "" && identity.GetCertificateIdentityRegexp() == "" {
		return fmt.Errorf("certificate_identity, or certificate_identity_regexp, must say whose certificate it is, such as release@lab.example")
	}
	if identity.GetCertificateOidcIssuer() == "" && identity.GetCertificateOidcIssuerRegexp() == "" {
		return fmt.Errorf("certificate_oidc_issuer, or certificate_oidc_issuer_regexp, must say who issued the identity, such as https://token.actions.githubusercontent.com")
	}
	for _, word := range []struct {
		name, text string
		isRegexp   bool
	}{
		{"certificate_identity", identity.GetCertificateIdentity(), false}, {"certificate_identity_regexp", identity.GetCertificateIdentityRegexp(), true},
		{"certificate_oidc_issuer", identity.GetCertificateOidcIssuer(), false}, {"certificate_oidc_issuer_regexp", identity.GetCertificateOidcIssuerRegexp(), true},
		{"predicate_type", identity.GetPredicateType(), false},
	} {
		if len(word.text) > maxPatternBytes || strings.ContainsFunc(word.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%s: %.64q is longer than %d bytes, or has control characters", word.name, word.text, maxPatternBytes)
		}
		if word.isRegexp {
			if _, err := regexp.Compile(word.text); err != nil {
				return fmt.Errorf("%s: %w", word.name, err)
			}
		}
	}
	return nil
}

// IdentityText is an identity for people: what somebody has to be to satisfy it.
func IdentityText(identity *pb.ImageIdentity) string {
	said := func(exact, pattern string) string {
		switch {
		case pattern == "":
			return exact
		case exact == "":
			return "/" + pattern + "/"
		}
		return exact + " and /" + pattern + "/"
	}
	text := said(identity.GetCertificateIdentity(), identity.GetCertificateIdentityRegexp()) + " of " + said(identity.GetCertificateOidcIssuer(), identity.GetCertificateOidcIssuerRegexp())
	if identity.GetPredicateType() != "" {
		text += " (attestation " + identity.GetPredicateType() + ")"
	}
	return text
}
