package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// issuedDir holds every certificate that the authority issued and that has not
// expired, on the host with the authority's key. The controller there has all
// controllers record them.
const issuedDir = "issued"

// Serial is the serial number of a certificate, as records and users name it.
func Serial(certificate *x509.Certificate) string { return certificate.SerialNumber.Text(16) }

func (a *Authority) keepIssued(serial *big.Int, der []byte) error {
	dir := a.path(issuedDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep a certificate that is issued: %w", err)
	} else if err == nil {
		if err := giveDirToOwner(dir); err != nil {
			return fmt.Errorf("keep a certificate that is issued: %w", err)
		}
	}
	return writeFile(filepath.Join(dir, serial.Text(16)+".pem"), encodeCertificate(der))
}

// IssuedAt is when the authority last issued something, as far as the directory
// tells; the zero time on hosts without its key.
func (a *Authority) IssuedAt() time.Time {
	info, err := os.Stat(a.path(issuedDir))
	if a.key == nil || err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Issued are the certificates that the authority issued and that are still
// good. Expired ones are forgotten.
func (a *Authority) Issued(now time.Time) ([]*x509.Certificate, error) {
	entries, err := os.ReadDir(a.path(issuedDir))
	if a.key == nil || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var issued []*x509.Certificate
	for _, entry := range entries {
		path := filepath.Join(a.path(issuedDir), entry.Name())
		if !strings.HasSuffix(path, ".pem") {
			continue // a draft
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return issued, err
		}
		certificate, err := a.Read(text)
		switch {
		case err != nil: // of a former authority, or damaged
		case now.After(certificate.NotAfter):
			err = os.Remove(path)
		default:
			issued = append(issued, certificate)
		}
		if err != nil && certificate != nil {
			return issued, err
		}
	}
	return issued, nil
}

// Read returns a certificate, in PEM, that this authority has signed.
func (a *Authority) Read(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("there is no certificate in it")
	}
	return a.Parse(block.Bytes)
}

// Parse returns a certificate, in DER, that this authority has signed.
func (a *Authority) Parse(der []byte) (*x509.Certificate, error) {
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if err := certificate.CheckSignatureFrom(a.certificate); err != nil {
		return nil, err
	}
	if _, _, ok := Holder(certificate); !ok {
		return nil, errors.New("it names no holder")
	}
	return certificate, nil
}

// SetRefuse sets a check for connections between controllers: those for which
// why returns a reason are refused.
func (a *Authority) SetRefuse(why func(kind Kind, name, serial string) string) { a.refuses.Store(&why) }

// Refused says why a certificate is refused apart from what it says itself; ""
// = it is not.
func (a *Authority) Refused(certificate *x509.Certificate) string {
	kind, name, _ := Holder(certificate)
	if why := a.refuses.Load(); why != nil {
		return (*why)(kind, name, Serial(certificate))
	}
	return ""
}
