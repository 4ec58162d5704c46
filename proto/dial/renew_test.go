package dial

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// signs answers requests as an authority whose key is that of the bundle does.
func signs(t *testing.T, dir string) func(request []byte) ([]byte, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return func(request []byte) ([]byte, error) {
		asked, err := x509.ParseCertificateRequest(request)
		if err != nil {
			return nil, err
		}
		return x509.CreateCertificate(nil, &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: asked.Subject, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, authority, asked.PublicKey, pair.PrivateKey)
	}
}

// TestRenew: only in the last third, by one at a time, over what a killed one left; a
// failure changes nothing, and is answered without another try until its pause is over.
func TestRenew(t *testing.T) {
	now := time.Now()
	dir := writeBundle(t, now.Add(-80*time.Minute), now.Add(40*time.Minute))
	ask := signs(t, dir)
	never := func([]byte) ([]byte, error) { t.Error("the authority was asked"); return nil, errors.New("asked") }
	present := func() []byte {
		text, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	former := present()
	if renewed, err := Renew(dir, now.Add(-time.Minute), 0, never); renewed || err != nil {
		t.Errorf("in its second third: %v, %v", renewed, err)
	}
	if renewed, err := Renew(dir, now.Add(41*time.Minute), 0, never); renewed || err != nil {
		t.Errorf("after its end: %v, %v", renewed, err)
	}
	now = now.Add(time.Minute)
	refused := errors.New("refused, " + strings.Repeat("at length, ", 200))
	if _, err := Renew(dir, now, time.Hour, func([]byte) ([]byte, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	if renewed, err := Renew(dir, now.Add(30*time.Minute), time.Hour, never); renewed || err == nil || !strings.HasPrefix(refused.Error(), err.Error()) {
		t.Errorf("within the pause: %v, %v", renewed, err)
	}
	if !bytes.Equal(present(), former) {
		t.Error("a failure changed the certificate")
	}
	if err := os.WriteFile(filepath.Join(dir, draftFile), []byte("half of a"), 0o400); err != nil {
		t.Fatal(err)
	}
	renewed, err := Renew(dir, now.Add(30*time.Minute), time.Minute, func(request []byte) ([]byte, error) {
		if renewed, err := Renew(dir, now, 0, never); renewed || err != nil {
			t.Errorf("beside another: %v, %v", renewed, err)
		}
		if _, err := loadTLS(dir, true); err != nil {
			t.Errorf("whoever is killed here leaves: %v", err)
		}
		return ask(request)
	})
	if !renewed || err != nil || bytes.Equal(present(), former) {
		t.Fatalf("%v, %v", renewed, err)
	}
	if _, err := loadTLS(dir, true); err != nil {
		t.Error(err)
	}
	if renewed, err := Renew(dir, now, 0, never); renewed || err != nil {
		t.Errorf("the new one: %v, %v", renewed, err)
	}
	var names []string
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if err != nil || !slices.Equal(names, []string{"ca.pem", "cert.pem", "key.pem", renewalFile}) {
		t.Errorf("left: %q, %v", names, err)
	}
}

// TestRenewNeedsRoom: where the new certificate could not be written none is issued.
func TestRenewNeedsRoom(t *testing.T) {
	now := time.Now()
	dir := writeBundle(t, now.Add(-90*time.Minute), now.Add(30*time.Minute))
	if err := os.Mkdir(filepath.Join(dir, draftFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, draftFile, "in the way"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Renew(dir, now, 0, func([]byte) ([]byte, error) { t.Error("the authority was asked"); return nil, nil }); err == nil {
		t.Error("no failure")
	}
}
