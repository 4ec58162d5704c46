package keyless

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/gleaner-hpc/gleaner/oci/sign"
)

// This file makes a bundle of what cosign keeps in a layer and its annotations.

// bundleType is that of bundles whose log entries have a promise, and need no proof.
const bundleType = sign.BundleType + "+json;version=0.1"

// logEntry is the annotation with the entry of a log.
type logEntry struct {
	SignedEntryTimestamp []byte
	Payload              struct {
		Body           []byte `json:"body"`
		IntegratedTime int64  `json:"integratedTime"`
		LogIndex       int64  `json:"logIndex"`
		LogID          string `json:"logID"`
	}
}

// ofCosign is a signature in cosign's own layout.
func (c *check) ofCosign(s *sign.Signed) (*bundle.Bundle, verify.ArtifactPolicyOption, reason) {
	if !s.Names(c.Digest) {
		return nil, nil, reason{ofAnother, "what is signed is another image"}
	}
	block, _ := pem.Decode([]byte(s.Certificate))
	if block == nil {
		return nil, nil, reason{byKey, "its signatures are made with keys"}
	}
	sum := sha256.Sum256(s.Payload)
	material := &protobundle.VerificationMaterial{
		Content: &protobundle.VerificationMaterial_X509CertificateChain{X509CertificateChain: &protocommon.X509CertificateChain{
			Certificates: []*protocommon.X509Certificate{{RawBytes: block.Bytes}},
		}},
	}
	err := addProofs(material, s)
	if err == nil {
		var entity *bundle.Bundle
		entity, err = bundle.NewBundle(&protobundle.Bundle{
			MediaType: bundleType, VerificationMaterial: material,
			Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
				MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]}, Signature: s.Signature,
			}},
		})
		if err == nil {
			return entity, verify.WithArtifact(bytes.NewReader(s.Payload)), reason{}
		}
	}
	return nil, nil, reason{unread, fmt.Sprintf("a signature of it cannot be read: %.200v", err)}
}

// addProofs adds what proves when it was signed.
func addProofs(material *protobundle.VerificationMaterial, s *sign.Signed) error {
	if s.LogEntry != "" {
		entry, err := parseLogEntry(s.LogEntry)
		if err != nil {
			return fmt.Errorf("its log entry: %w", err)
		}
		material.TlogEntries = []*protorekor.TransparencyLogEntry{entry}
	}
	if s.Timestamp != "" {
		var stamp struct{ SignedRFC3161Timestamp []byte }
		if err := json.Unmarshal([]byte(s.Timestamp), &stamp); err != nil {
			return fmt.Errorf("its timestamp: %w", err)
		}
		material.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: stamp.SignedRFC3161Timestamp}},
		}
	}
	return nil
}

func parseLogEntry(text string) (*protorekor.TransparencyLogEntry, error) {
	var entry logEntry
	if err := json.Unmarshal([]byte(text), &entry); err != nil {
		return nil, err
	}
	var kind struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
	}
	if err := json.Unmarshal(entry.Payload.Body, &kind); err != nil {
		return nil, err
	}
	log, err := hex.DecodeString(entry.Payload.LogID)
	if err != nil {
		return nil, err
	}
	return &protorekor.TransparencyLogEntry{
		LogIndex: entry.Payload.LogIndex, LogId: &protocommon.LogId{KeyId: log},
		KindVersion:       &protorekor.KindVersion{Kind: kind.Kind, Version: kind.Version},
		IntegratedTime:    entry.Payload.IntegratedTime,
		InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: entry.SignedEntryTimestamp},
		CanonicalizedBody: entry.Payload.Body,
	}, nil
}
