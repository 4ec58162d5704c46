package keyless

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/gleaner-hpc/gleaner/oci/sign"
)

// reason is why a signature does not count.
type reason struct {
	how  standing
	text string
}

// standing says how near a signature came to one that counts.
type standing int

const (
	absent standing = iota
	byKey
	ofAnother
	unread
	broken
	byOther
)

// reasons keep those of the signatures that came nearest.
type reasons struct {
	how   standing
	texts []string
}

// mostReasons bounds what is told.
const mostReasons = 3

func (r *reasons) add(one reason) {
	if one.how > r.how {
		r.how, r.texts = one.how, nil
	}
	if one.how == r.how && len(r.texts) < mostReasons && !slices.Contains(r.texts, one.text) {
		r.texts = append(r.texts, one.text)
	}
}

// String is what is told.
func (r *reasons) String() string {
	if len(r.texts) == 0 {
		return "there is no keyless signature of it"
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f { // of what strangers wrote
			return '?'
		}
		return c
	}, strings.Join(r.texts, "; "))
}

// by says who has made what holds.
func by(m *made) reason {
	did := "signed it"
	if m.predicate != sign.SignaturePredicate {
		did = fmt.Sprintf("made an attestation %.100q", m.predicate)
	}
	return reason{byOther, fmt.Sprintf("%.200q of %.200q has %s", m.by.SubjectAlternativeName, m.by.Issuer, did)}
}

// explain says which of the things that a signature needs it lacks. The library checks them
// in this order.
func (c *check) explain(entity *bundle.Bundle, failed error) reason {
	logged, err := c.verifier.VerifyTransparencyLogInclusion(entity)
	if err != nil {
		return reason{broken, fmt.Sprintf("no log of the trusted root proves its signature: %.300v", err)}
	}
	times, err := c.verifier.VerifyObserverTimestamps(entity, logged)
	if err != nil {
		return reason{broken, fmt.Sprintf("no log and no timestamping authority of the trusted root says when it was signed: %.300v", err)}
	}
	content, err := entity.VerificationContent()
	if err != nil || content.Certificate() == nil {
		return reason{unread, fmt.Sprintf("a signature of it cannot be read: %.300v", failed)}
	}
	for _, at := range times {
		chains, err := verify.VerifyLeafCertificate(at.Timestamp, content.Certificate(), c.root)
		if err != nil {
			return reason{broken, "its certificate is by no authority of the trusted root that was in force when it was signed, " + at.Timestamp.UTC().Format(time.RFC3339) + ", or was not in force then itself"}
		}
		if len(c.root.CTLogs()) > 0 && verify.VerifySignedCertificateTimestamp(chains, 1, c.root) != nil {
			return reason{broken, "no certificate log of the trusted root has its certificate"}
		}
	}
	return reason{broken, fmt.Sprintf("its signature is not of this image, or of what was changed since: %.300v", failed)}
}
