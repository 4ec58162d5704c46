package ctld

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
)

// TestCertificateProblem: two months before a certificate ends somebody is
// told, with what renews it where it lies.
func TestCertificateProblem(t *testing.T) {
	begun, err := pki.Open(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begun.ServerConfig("c1"); err != nil { // it makes its own
		t.Fatal(err)
	}
	out, dir := filepath.Join(t.TempDir(), "c2"), filepath.Join(t.TempDir(), "pki")
	if err := begun.WriteBundle(pki.Controller, "c2", out); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Install(out, dir); err != nil {
		t.Fatal(err)
	}
	joined, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name         string
		certificates *pki.Authority
		remedy       string
	}{{"c1", begun, "see the log of gctld"}, {"c2", joined, "gctld cert --controller c2 --out DIR"}} {
		ends, soon := test.certificates.Expires(time.Now())
		if soon || certificateProblem(test.certificates, test.name, time.Now()) != "" {
			t.Errorf("%s: a new certificate, until %v, is said to end soon", test.name, ends)
		}
		month := certificateProblem(test.certificates, test.name, ends.Add(-30*24*time.Hour))
		if !strings.Contains(month, "ends in 30 days") || !strings.Contains(month, test.remedy) {
			t.Errorf("%s, a month before: %q", test.name, month)
		}
		if late := certificateProblem(test.certificates, test.name, ends.Add(time.Hour)); !strings.Contains(late, "ended on") || !strings.Contains(late, test.remedy) {
			t.Errorf("%s, afterwards: %q", test.name, late)
		}
	}
	if said := certificateProblem(nil, "alone", time.Now()); said != "" {
		t.Errorf("without certificates: %q", said)
	}
}
