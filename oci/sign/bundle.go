package sign

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// SignaturePredicate is the type of a statement that is a signature by cosign, and no
// attestation.
const SignaturePredicate = "https://sigstore.dev/cosign/sign/v1"

const statementType = "application/vnd.in-toto+json"

// statement is what is signed in a bundle, as in-toto has it.
type statement struct {
	PredicateType string `json:"predicateType"`
	Subject       []struct {
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
}

// bundleMessage is the message of a bundle's one signature (DSSE), if its statement is
// cosign's signature of the image.
func bundleMessage(text []byte, digest string) (message, signature []byte) {
	var bundle struct {
		Envelope struct {
			Payload     []byte `json:"payload"`
			PayloadType string `json:"payloadType"`
			Signatures  []struct {
				Sig []byte `json:"sig"`
			} `json:"signatures"`
		} `json:"dsseEnvelope"`
	}
	if len(text) > MaxPayloadBytes || json.Unmarshal(text, &bundle) != nil {
		return nil, nil
	}
	e := &bundle.Envelope
	if e.PayloadType != statementType || len(e.Signatures) != 1 {
		return nil, nil
	}
	var s statement
	if json.Unmarshal(e.Payload, &s) != nil || s.PredicateType != SignaturePredicate {
		return nil, nil
	}
	hex, isSHA256 := strings.CutPrefix(digest, "sha256:")
	for i := range s.Subject {
		if isSHA256 && s.Subject[i].Digest["sha256"] == hex {
			return slices.Concat(fmt.Appendf(nil, "DSSEv1 %d %s %d ", len(e.PayloadType), e.PayloadType, len(e.Payload)), e.Payload), e.Signatures[0].Sig
		}
	}
	return nil, nil
}
