package scenario

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() { commands["nearend"] = nearEnd }

// nearEnd is `nearend AUTHORITY-DIR DIR DURATION`: the certificate in DIR ends in
// DURATION, and three quarters of its life are over. Holder and key stay.
func nearEnd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: nearend AUTHORITY-DIR DIR DURATION")
	}
	left, err := time.ParseDuration(args[2])
	ts.Check(err)
	authority, err := tls.LoadX509KeyPair(filepath.Join(args[0], "ca.pem"), filepath.Join(args[0], "ca-key.pem"))
	ts.Check(err)
	path := filepath.Join(args[1], "cert.pem")
	present, err := tls.LoadX509KeyPair(path, filepath.Join(args[1], "key.pem"))
	ts.Check(err)
	older := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: present.Leaf.Subject, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-3 * left), NotAfter: time.Now().Add(left),
		KeyUsage: present.Leaf.KeyUsage, ExtKeyUsage: present.Leaf.ExtKeyUsage,
	}
	der, err := x509.CreateCertificate(rand.Reader, older, authority.Leaf, present.Leaf.PublicKey, authority.PrivateKey)
	ts.Check(err)
	ts.Check(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)) // its owner stays
}
