package dial

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeBundle writes what "gctld cert" writes, good between two moments.
func writeBundle(t *testing.T, from, until time.Time) (dir string) {
	t.Helper()
	dir = t.TempDir()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-100 * 24 * time.Hour), NotAfter: time.Now().Add(100 * 24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	check(err)
	holder := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "user:alice"}, NotBefore: from, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	leaf, err := x509.CreateCertificate(rand.Reader, holder, authority, key.Public(), key)
	check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	for name, block := range map[string]*pem.Block{
		"ca.pem": {Type: "CERTIFICATE", Bytes: root}, "cert.pem": {Type: "CERTIFICATE", Bytes: leaf}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		check(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return dir
}

func TestOwnCertificate(t *testing.T) {
	now, day := time.Now(), 24*time.Hour
	good := writeBundle(t, now.Add(-day), now.Add(day))
	if _, err := loadTLS(good, true); err != nil {
		t.Fatal(err)
	}
	foreign := writeBundle(t, now.Add(-day), now.Add(day))
	authority, err := os.ReadFile(filepath.Join(good, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "ca.pem"), authority, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := writeBundle(t, now.Add(-day), now.Add(day))
	if err := os.WriteFile(filepath.Join(damaged, "cert.pem"), []byte("-----BEGIN"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, dir := range map[string]string{
		"was good until": writeBundle(t, now.Add(-2*day), now.Add(-day)), "is good from": writeBundle(t, now.Add(day), now.Add(2*day)),
		"was not issued by the authority": foreign, "cert.pem and key.pem of": damaged,
	} {
		if _, err := loadTLS(dir, true); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestMungeInstead: munged speaks for users who have no certificate, and for nobody else.
func TestMungeInstead(t *testing.T) {
	now, day := time.Now(), 24*time.Hour
	dir := writeBundle(t, now.Add(-day), now.Add(day))
	t.Setenv(EnvironmentTLSDir, dir)
	t.Setenv(EnvironmentMunge, "/munged")
	speaks := func(what, dir, munged, why string) {
		t.Helper()
		creds, err := credentialsIn(dir)
		switch {
		case why != "":
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", what, err)
			}
		case err != nil || creds.munge != munged || creds.tls == nil || creds.tls.ServerName != ServerName || (creds.tls.GetClientCertificate == nil) != (munged != ""):
			t.Errorf("%s: %+v, %v", what, creds, err)
		}
	}
	speaks("with a certificate", "", "", "")
	if err := os.Remove(filepath.Join(dir, "cert.pem")); err != nil {
		t.Fatal(err)
	}
	speaks("without one", "", "/munged", "")
	speaks("a daemon without one", dir, "", "cert.pem")
	if err := os.Symlink("nowhere", filepath.Join(dir, "cert.pem")); err != nil {
		t.Fatal(err)
	}
	speaks("with one that cannot be read", "", "", "cert.pem")
	if err := errors.Join(os.Remove(filepath.Join(dir, "cert.pem")), os.Remove(filepath.Join(dir, "ca.pem"))); err != nil {
		t.Fatal(err)
	}
	speaks("without the authority", "", "", "ca.pem")
}
