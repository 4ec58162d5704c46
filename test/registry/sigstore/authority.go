// Package sigstore is a Sigstore in this process, for tests and demonstrations: an authority
// that issues certificates of ten minutes as Fulcio does, a log of certificates, and a log
// of signatures as Rekor keeps it. It is written from what these say of themselves and not
// with their library, so that what checks signatures is not checked against itself.
package sigstore

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"net/url"
	"strings"
	"time"
)

// Site is one.
type Site struct {
	root, authority *x509.Certificate
	key             *ecdsa.PrivateKey // of the authority
	certLog, log    *ecdsa.PrivateKey
	clock           *x509.Certificate
	clockKey        *ecdsa.PrivateKey
	from            time.Time

	// What its trusted root says besides.
	AuthorityUntil time.Time // zero = as long as the certificates
	LogUntil       time.Time // likewise
	NoCertLog      bool      // it lists no log of certificates
	NoLog          bool      // it lists a timestamping authority and no log of signatures, and signatures are in none
	// Hidden: certificates are in no log.
	Hidden bool
}

const years = 10 * 365 * 24 * time.Hour

// New makes one that began a year before now.
func New(now time.Time) (*Site, error) {
	s := &Site{from: now.Add(-365 * 24 * time.Hour).Truncate(time.Second)}
	rootKey, err := newKey()
	if err != nil {
		return nil, err
	}
	for _, key := range []**ecdsa.PrivateKey{&s.key, &s.certLog, &s.log, &s.clockKey} {
		if *key, err = newKey(); err != nil {
			return nil, err
		}
	}
	ca := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: s.from, NotAfter: s.from.Add(years),
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true,
		}
	}
	template := ca("sigstore")
	if s.root, err = issue(template, template, &rootKey.PublicKey, rootKey); err != nil {
		return nil, err
	}
	below := ca("sigstore-intermediate")
	below.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	if s.authority, err = issue(below, s.root, &s.key.PublicKey, rootKey); err != nil {
		return nil, err
	}
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}}) // timestamping
	if err != nil {
		return nil, err
	}
	s.clock, err = issue(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "clock"}, NotBefore: s.from, NotAfter: s.from.Add(years), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage}},
	}, s.root, &s.clockKey.PublicKey, rootKey)
	return s, err
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func issue(template, parent *x509.Certificate, of *ecdsa.PublicKey, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, of, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Extensions of Fulcio's certificates and of certificate logs.
var (
	issuerExtension   = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}
	issuerExtensionV2 = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}
	sctExtension      = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}
)

// certify issues the certificate of somebody for whom an issuer has vouched. A subject is a
// URI or an address of mail.
func (s *Site) certify(subject, issuer string, at time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	newer, err := asn1.MarshalWithParams(issuer, "utf8")
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(at.UnixNano()), NotBefore: at, NotAfter: at.Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{{Id: issuerExtension, Value: []byte(issuer)}, {Id: issuerExtensionV2, Value: newer}},
	}
	if strings.Contains(subject, "://") {
		uri, err := url.Parse(subject)
		if err != nil {
			return nil, nil, err
		}
		template.URIs = []*url.URL{uri}
	} else {
		template.EmailAddresses = []string{subject}
	}
	certificate, err := issue(template, s.authority, &key.PublicKey, s.key)
	if err != nil || s.Hidden {
		return certificate, key, err
	}
	proof, err := s.disclose(certificate, at)
	if err != nil {
		return nil, nil, err
	}
	template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: sctExtension, Value: proof})
	certificate, err = issue(template, s.authority, &key.PublicKey, s.key)
	return certificate, key, err
}

// disclose answers the list of the one timestamp with which the log of certificates
// promises to show a certificate (RFC 6962).
func (s *Site) disclose(certificate *x509.Certificate, at time.Time) ([]byte, error) {
	millis := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
	issuer := sha256.Sum256(s.authority.RawSubjectPublicKeyInfo)
	tbs := certificate.RawTBSCertificate
	signed := bytes.Join([][]byte{
		{0, 0}, millis, {0, 1}, issuer[:], {byte(len(tbs) >> 16), byte(len(tbs) >> 8), byte(len(tbs))}, tbs, {0, 0},
	}, nil)
	sum := sha256.Sum256(signed)
	signature, err := ecdsa.SignASN1(rand.Reader, s.certLog, sum[:])
	if err != nil {
		return nil, err
	}
	id, err := keyID(s.certLog)
	if err != nil {
		return nil, err
	}
	const sha256WithECDSA = "\x04\x03"
	timestamp := bytes.Join([][]byte{{0}, id, millis, {0, 0}, []byte(sha256WithECDSA), withLength(signature)}, nil)
	return asn1.Marshal(withLength(withLength(timestamp)))
}

// withLength puts the length before some bytes.
func withLength(b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// keyID is how logs name their keys.
func keyID(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	sum := sha256.Sum256(der)
	return sum[:], err
}

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}
