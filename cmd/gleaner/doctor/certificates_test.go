package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/finding"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

const day = 24 * time.Hour

// issuer is an authority of a test.
type issuer struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	self *x509.Certificate
}

func newIssuer(t *testing.T, good time.Duration) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-100 * day), NotAfter: time.Now().Add(good), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	self, err := x509.ParseCertificate(der)
	must(t, err)
	return &issuer{t, key, self}
}

func (i *issuer) write(path, kind string, der []byte) {
	i.t.Helper()
	must(i.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(i.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (i *issuer) writeKey(path string, key *ecdsa.PrivateKey) {
	i.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(i.t, err)
	i.write(path, "PRIVATE KEY", der)
}

// bundle writes what "gctld cert" writes, good from and until some time from
// now.
func (i *issuer) bundle(name string, from, until time.Duration) (dir string) {
	i.t.Helper()
	dir = i.t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(i.t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, i.self, key.Public(), i.key)
	must(i.t, err)
	i.write(filepath.Join(dir, "ca.pem"), "CERTIFICATE", i.self.Raw)
	i.write(filepath.Join(dir, "cert.pem"), "CERTIFICATE", der)
	i.writeKey(filepath.Join(dir, "key.pem"), key)
	return dir
}

func TestBundle(t *testing.T) {
	ours, other := newIssuer(t, 1000*day), newIssuer(t, 1000*day)
	for name, c := range map[string]struct {
		from, until time.Duration
		holder      string
		harm        func(dir string)
		status      finding.Status
		words       []string
	}{
		"good":          {-day, 100*day + time.Hour, "node:n1", nil, finding.OK, []string{"of node:n1, good for 100 days more"}},
		"over":          {-2 * day, -day, "node:n1", nil, finding.Failed, []string{"was good until", "gctld cert --node n1"}},
		"soon over":     {-85 * day, 5*day + time.Hour, "node:n1", nil, finding.Warning, []string{"good for 5 days more"}},
		"to be renewed": {-65 * day, 25*day + time.Hour, "node:n1", nil, finding.OK, []string{"good for 25 days more"}},
		"not yet":       {day, 2 * day, "node:n1", nil, finding.Failed, []string{"is good from", "timedatectl"}},
		"another's":     {-day, 100 * day, "node:n2", nil, finding.Failed, []string{"that of node:n2, and this is node n1"}},
		"a user's":      {-day, 100 * day, "user:n1", nil, finding.Failed, []string{"that of user:n1"}},
		"foreign":       {-day, 100 * day, "node:n1", func(dir string) { other.write(dir+"/ca.pem", "CERTIFICATE", other.self.Raw) }, finding.Failed, []string{"not issued by the authority"}},
		"other key":     {-day, 100 * day, "node:n1", func(dir string) { other.writeKey(dir+"/key.pem", other.key) }, finding.Failed, []string{"private key does not match"}},
		"open key":      {-day, 100 * day, "node:n1", func(dir string) { must(t, os.Chmod(dir+"/key.pem", 0o640)) }, finding.Failed, []string{"mode 0640", "chmod 600"}},
		"no key":        {-day, 100 * day, "node:n1", func(dir string) { must(t, os.Remove(dir+"/key.pem")) }, finding.Failed, []string{"key.pem: no such file"}},
		"no authority":  {-day, 100 * day, "node:n1", func(dir string) { must(t, os.Remove(dir+"/ca.pem")) }, finding.Failed, []string{"ca.pem: no such file"}},
		"damaged":       {-day, 100 * day, "node:n1", func(dir string) { must(t, os.WriteFile(dir+"/ca.pem", []byte("-----BEG"), 0o600)) }, finding.Failed, []string{"holds no certificate"}},
		"no authority2": {-day, 100 * day, "node:n1", func(dir string) { must(t, os.Rename(dir+"/cert.pem", dir+"/ca.pem")) }, finding.Failed, []string{"holds no authority's certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ours.bundle(c.holder, c.from, c.until)
			if c.harm != nil {
				c.harm(dir)
			}
			want(t, checkBundle(dir, finding.Node, "n1"), "certificate in "+dir, c.status, c.words...)
		})
	}
	joined := ours.bundle("controller:c2", -day, 100*day)
	want(t, checkAuthority(joined, "c2"), "certificate in "+joined, finding.OK, "controller:c2")
	want(t, checkAuthority(joined, "c3"), "certificate in "+joined, finding.Failed, "and this is controller c3", "gctld cert --controller c3")
	dir := ours.bundle("user:ann", -day, 100*day)
	t.Setenv(dial.EnvironmentMunge, filepath.Join(t.TempDir(), "none"))
	want(t, checkOwn(t.Context(), dir), "certificate in "+dir, finding.OK, "user:ann")
	must(t, os.Remove(dir+"/cert.pem"))
	want(t, checkOwn(t.Context(), dir), "munge", finding.Failed, "munged cannot be asked: nothing listens on", "gctld cert --user")
	must(t, os.Remove(dir+"/ca.pem"))
	want(t, checkOwn(t.Context(), dir), "certificate in "+dir, finding.Failed, "ca.pem: no such file")
}

// TestMungeInPlaceOfACertificate: a user without a certificate is told whether munged speaks
// for them.
func TestMungeInPlaceOfACertificate(t *testing.T) {
	t.Setenv(dial.EnvironmentMunge, prototest.Munged(t, 1))
	dir := newIssuer(t, 1000*day).bundle("user:ann", -day, 100*day)
	must(t, os.Remove(dir+"/cert.pem"))
	want(t, checkOwn(t.Context(), dir), "munge", finding.OK, "munged answers at")
	got := (&diagnosis{}).contacts(examination{Targets: []string{"c1.lab:1"}, TLSDir: dir}, []*site{{role: userRole}})
	if len(got) != 1 || got[0].tlsDir != "" {
		t.Errorf("the controller is asked with a certificate that is not there: %+v", got)
	}
}

func TestAuthority(t *testing.T) {
	authority := func(good time.Duration) (string, *issuer) {
		i, dir := newIssuer(t, good), t.TempDir()
		i.write(dir+"/ca.pem", "CERTIFICATE", i.self.Raw)
		i.writeKey(dir+"/ca-key.pem", i.key)
		return dir, i
	}
	for name, c := range map[string]struct {
		good   time.Duration
		harm   func(dir string)
		status finding.Status
		words  []string
	}{
		"good":     {1000*day + time.Hour, nil, finding.OK, []string{"good for 1000 days more"}},
		"ends":     {500*day + time.Hour, nil, finding.Warning, []string{"good for 500 days more"}},
		"none":     {1000 * day, func(dir string) { must(t, os.Remove(dir+"/ca.pem")) }, finding.OK, []string{"none yet"}},
		"over":     {-day, nil, finding.Failed, []string{"was good until", "issue all certificates again"}},
		"open key": {1000 * day, func(dir string) { must(t, os.Chmod(dir+"/ca-key.pem", 0o604)) }, finding.Failed, []string{"mode 0604", "issue certificates for anybody"}},
		"no key":   {1000 * day, func(dir string) { must(t, os.Remove(dir+"/ca-key.pem")) }, finding.Failed, []string{"ca-key.pem is not"}},
		"damaged":  {1000 * day, func(dir string) { must(t, os.WriteFile(dir+"/controller-key.pem", nil, 0o600)) }, finding.Failed, []string{"controller.pem: no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := authority(c.good)
			if c.harm != nil {
				c.harm(dir)
			}
			want(t, checkAuthority(dir, "c1"), "certificates in "+dir, c.status, c.words...)
		})
	}
}
