package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What a holder of a certificate gets, as package dial reads it.
const (
	bundleAuthority   = "ca.pem"
	bundleCertificate = "cert.pem"
	bundleKey         = "key.pem"
	// bundleOrigin is a controller's additional file: where the authority's key
	// is.
	bundleOrigin = "issued-on"
)

// maxBundleFile bounds each file of a bundle.
const maxBundleFile = 64 << 10

// WriteBundle issues a certificate and writes what its holder needs into out:
// ca.pem, cert.pem and key.pem.
func (a *Authority) WriteBundle(kind Kind, name, out string) error {
	certificate, key, err := a.Issue(kind, name)
	if err != nil {
		return err
	}
	files := bundle{{bundleAuthority, a.pem}, {bundleKey, key}, {bundleCertificate, certificate}}
	if kind == Controller {
		host, _ := os.Hostname()
		files = append(files, bundleFile{bundleOrigin, fmt.Appendf(nil, "%s, where it is %s\n", host, a.path("ca-key.pem"))})
	}
	return files.write(out)
}

type bundleFile struct {
	name    string
	content []byte
}

type bundle []bundleFile

func (b bundle) write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	for _, file := range b {
		path := filepath.Join(dir, file.name)
		if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, file.content) {
			continue // a controller starts with the same each time, even on a full disk
		}
		if err := writeFile(path, file.content); err != nil {
			return err
		}
	}
	return nil
}

// readBundle reads a controller's bundle, and its certificate.
func readBundle(dir string) (files bundle, pair tls.Certificate, authority *x509.Certificate, err error) {
	for _, name := range []string{bundleAuthority, bundleKey, bundleCertificate, bundleOrigin} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err == nil && info.Size() > maxBundleFile {
			err = fmt.Errorf("%s has %d bytes: it is no file of gctld cert", path, info.Size())
		}
		var content []byte
		if err == nil {
			content, err = os.ReadFile(path)
		}
		if err != nil {
			return nil, pair, nil, err
		}
		files = append(files, bundleFile{name, content})
	}
	block, _ := pem.Decode(files[0].content)
	if block == nil {
		return nil, pair, nil, fmt.Errorf("%s holds no certificate", filepath.Join(dir, bundleAuthority))
	}
	if authority, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, pair, nil, fmt.Errorf("%s: %w", filepath.Join(dir, bundleAuthority), err)
	}
	if pair, err = tls.X509KeyPair(files[2].content, files[1].content); err != nil {
		return nil, pair, nil, fmt.Errorf("%s and %s in %s: %w", bundleCertificate, bundleKey, dir, err)
	}
	switch kind, _, ok := Holder(pair.Leaf); {
	case !ok || kind != Controller:
		return nil, pair, nil, fmt.Errorf("%s is not a controller's: issue one with gctld cert --controller NAME", filepath.Join(dir, bundleCertificate))
	case pair.Leaf.CheckSignatureFrom(authority) != nil:
		return nil, pair, nil, fmt.Errorf("%s was not issued by the authority in %s in the same directory", filepath.Join(dir, bundleCertificate), bundleAuthority)
	}
	return files, pair, authority, nil
}

// Install copies the bundle of a controller that joins, or a newer one of the
// same controller, from another directory into dir. It returns the name of the
// controller.
func Install(from, dir string) (name string, err error) {
	files, pair, authority, err := readBundle(from)
	if err != nil {
		return "", fmt.Errorf("%w: certificates: %w", ErrAuthority, err)
	}
	_, name, _ = Holder(pair.Leaf)
	if exists(filepath.Join(dir, "ca-key.pem")) {
		return "", fmt.Errorf("%w: %s is the authority of a cluster itself: only a controller that joins another one takes certificates from %s", ErrAuthority, dir, from)
	}
	if exists(filepath.Join(dir, bundleCertificate)) {
		_, former, formerAuthority, err := readBundle(dir)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrAuthority, err)
		}
		if _, formerName, _ := Holder(former.Leaf); formerName != name || !formerAuthority.Equal(authority) {
			return "", fmt.Errorf("%w: %s has the certificates of controller %s, those in %s are of controller %s or of another cluster: empty the data directory first", ErrAuthority, dir, formerName, from, name)
		}
	}
	return name, files.write(dir)
}

// Present reports whether dir has certificates already, of an authority or
// issued by one.
func Present(dir string) bool {
	return exists(filepath.Join(dir, bundleCertificate)) || exists(filepath.Join(dir, "ca-key.pem"))
}

// Name is the name in the certificate of a controller that joined, "" where
// there is none.
func Name(dir string) string {
	if !exists(filepath.Join(dir, bundleCertificate)) {
		return ""
	}
	_, pair, _, err := readBundle(dir)
	if err != nil {
		return "" // Open says what is wrong
	}
	_, name, _ := Holder(pair.Leaf)
	return name
}

// loadIssued loads what was issued to a controller that joined.
func (a *Authority) loadIssued() error {
	_, _, authority, err := readBundle(a.dir)
	if err == nil {
		err = a.use(authority)
	}
	if err != nil {
		return fmt.Errorf("%w: load from %s: %w", ErrAuthority, a.dir, err)
	}
	return nil
}

// origin says where the authority's key is.
func (a *Authority) origin() string {
	text, err := os.ReadFile(a.path(bundleOrigin))
	if err != nil {
		return "the host of the controller that began the cluster"
	}
	return strings.TrimSpace(string(text))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
