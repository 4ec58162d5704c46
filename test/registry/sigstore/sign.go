package sigstore

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/digitorus/timestamp"

	"github.com/gleaner-hpc/gleaner/oci/sign"
)

// Signer is somebody who signs at some time.
type Signer struct {
	Subject string // of the certificate: an address of mail, or a URI
	Issuer  string // who has vouched for it
	At      time.Time
}

// Sign makes a signature as cosign keeps it in a layer and its annotations.
func (s *Site) Sign(by Signer, reference, digest string) (sign.Signed, error) {
	return s.SignLater(by, reference, digest, 0)
}

// SignLater is Sign some time after the certificate was issued.
func (s *Site) SignLater(by Signer, reference, digest string, after time.Duration) (sign.Signed, error) {
	var signed sign.Signed
	certificate, key, err := s.certify(by.Subject, by.Issuer, by.At)
	if err != nil {
		return signed, err
	}
	if signed.Payload, err = sign.Payload(reference, digest); err != nil {
		return signed, err
	}
	sum := sha256.Sum256(signed.Payload)
	if signed.Signature, err = ecdsa.SignASN1(rand.Reader, key, sum[:]); err != nil {
		return signed, err
	}
	signed.Certificate = string(pemOf(certificate))
	if s.NoLog {
		signed.Timestamp, err = s.stamp(by.At.Add(after), signed.Signature)
		return signed, err
	}
	entry, err := s.enter(by.At.Add(after), object{
		"apiVersion": "0.0.1", "kind": "hashedrekord",
		"spec": object{
			"data":      object{"hash": object{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])}},
			"signature": object{"content": signed.Signature, "publicKey": object{"content": pemOf(certificate)}},
		},
	})
	if err != nil {
		return signed, err
	}
	text, err := json.Marshal(object{"SignedEntryTimestamp": entry.promise, "Payload": entry.payload})
	signed.LogEntry = string(text)
	return signed, err
}

// stamp is the timestamp of a signature (RFC 3161), as cosign annotates it.
func (s *Site) stamp(at time.Time, signature []byte) (string, error) {
	sum := sha256.Sum256(signature)
	stamp := timestamp.Timestamp{HashAlgorithm: crypto.SHA256, HashedMessage: sum[:], Time: at, Policy: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2}}
	answer, err := stamp.CreateResponseWithOpts(s.clock, s.clockKey, crypto.SHA256)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(object{"SignedRFC3161Timestamp": answer})
	return string(text), err
}

// Attest makes a bundle with a statement about an image: a signature if the predicate is
// sign.SignaturePredicate.
func (s *Site) Attest(by Signer, digest, predicate string) (sign.Signed, error) {
	certificate, key, err := s.certify(by.Subject, by.Issuer, by.At)
	if err != nil {
		return sign.Signed{}, err
	}
	const payloadType = "application/vnd.in-toto+json"
	statement, err := json.Marshal(object{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": predicate, "predicate": object{},
		"subject": []object{{"digest": object{"sha256": strings.TrimPrefix(digest, "sha256:")}}},
	})
	if err != nil {
		return sign.Signed{}, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(statement), statement))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return sign.Signed{}, err
	}
	envelope := object{"payload": statement, "payloadType": payloadType, "signatures": []object{{"sig": signature}}}
	text, err := json.Marshal(envelope)
	if err != nil {
		return sign.Signed{}, err
	}
	hashed := func(of []byte) object {
		sum := sha256.Sum256(of)
		return object{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])}
	}
	entry, err := s.enter(by.At, object{
		"apiVersion": "0.0.1", "kind": "dsse",
		"spec": object{
			"envelopeHash": hashed(text), "payloadHash": hashed(statement),
			"signatures": []object{{"signature": base64.StdEncoding.EncodeToString(signature), "verifier": pemOf(certificate)}},
		},
	})
	if err != nil {
		return sign.Signed{}, err
	}
	proof, err := s.prove(entry)
	if err != nil {
		return sign.Signed{}, err
	}
	bundle, err := json.Marshal(object{
		"mediaType": sign.BundleType + ".v0.3+json", "dsseEnvelope": envelope,
		"verificationMaterial": object{
			"certificate": object{"rawBytes": certificate.Raw},
			"tlogEntries": []object{{
				"logIndex": "0", "logId": object{"keyId": entry.log}, "kindVersion": object{"kind": "dsse", "version": "0.0.1"},
				"integratedTime": strconv.FormatInt(by.At.Unix(), 10), "inclusionPromise": object{"signedEntryTimestamp": entry.promise},
				"inclusionProof": proof, "canonicalizedBody": entry.body,
			}},
		},
	})
	return sign.Signed{Bundle: bundle}, err
}

// entry is one of the log of signatures.
type entry struct {
	body    []byte
	log     []byte // its name
	payload object
	promise []byte // the log's signature of the payload
}

func (s *Site) enter(at time.Time, body object) (*entry, error) {
	e := &entry{}
	var err error
	if e.body, err = json.Marshal(body); err != nil {
		return nil, err
	}
	if e.log, err = keyID(s.log); err != nil {
		return nil, err
	}
	e.payload = object{"body": e.body, "integratedTime": at.Unix(), "logIndex": 0, "logID": hex.EncodeToString(e.log)}
	text, err := json.Marshal(e.payload) // with its keys in order, as what is signed has them
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	e.promise, err = ecdsa.SignASN1(rand.Reader, s.log, sum[:])
	return e, err
}

// prove makes the proof that an entry is in the log: the only one of it, under a head that
// the log has signed.
func (s *Site) prove(e *entry) (object, error) {
	leaf := sha256.Sum256(append([]byte{0}, e.body...))
	head := fmt.Sprintf("rekor.lab.example - 1\n1\n%s\n", base64.StdEncoding.EncodeToString(leaf[:]))
	sum := sha256.Sum256([]byte(head))
	signature, err := ecdsa.SignASN1(rand.Reader, s.log, sum[:])
	const hint = 4 // bytes of the key's name
	note := base64.StdEncoding.EncodeToString(append(e.log[:hint:hint], signature...))
	return object{
		"logIndex": "0", "treeSize": "1", "rootHash": leaf[:], "hashes": [][]byte{},
		"checkpoint": object{"envelope": head + "\n— rekor.lab.example " + note + "\n"},
	}, err
}
