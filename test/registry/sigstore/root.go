package sigstore

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"time"
)

// object is one of JSON. Its bytes become base64.
type object map[string]any

// Root is the site's trusted_root.json.
func (s *Site) Root() ([]byte, error) {
	logs, err := keyOfLog("https://rekor.lab.example", s.log, s.from, s.LogUntil)
	if err != nil {
		return nil, err
	}
	certLogs, err := keyOfLog("https://ctfe.lab.example", s.certLog, s.from, time.Time{})
	if err != nil {
		return nil, err
	}
	root := object{
		"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
		"certificateAuthorities": []object{{
			"subject": object{"organization": "lab.example", "commonName": "sigstore"}, "uri": "https://fulcio.lab.example",
			"certChain": object{"certificates": []object{{"rawBytes": s.authority.Raw}, {"rawBytes": s.root.Raw}}},
			"validFor":  span(s.from, s.AuthorityUntil),
		}},
	}
	if s.NoLog {
		root["timestampAuthorities"] = []object{{
			"subject": object{"organization": "lab.example", "commonName": "clock"}, "uri": "https://clock.lab.example",
			"certChain": object{"certificates": []object{{"rawBytes": s.clock.Raw}, {"rawBytes": s.root.Raw}}}, "validFor": span(s.from, time.Time{}),
		}}
	} else {
		root["tlogs"] = []object{logs}
	}
	if !s.NoCertLog {
		root["ctlogs"] = []object{certLogs}
	}
	return json.MarshalIndent(root, "", "  ")
}

func keyOfLog(at string, key *ecdsa.PrivateKey, from, until time.Time) (object, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	id, err := keyID(key)
	return object{
		"baseUrl": at, "hashAlgorithm": "SHA2_256", "logId": object{"keyId": id},
		"publicKey": object{"rawBytes": der, "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": span(from, until)},
	}, err
}

func span(from, until time.Time) object {
	s := object{"start": from.UTC().Format(time.RFC3339)}
	if !until.IsZero() {
		s["end"] = until.UTC().Format(time.RFC3339)
	}
	return s
}
