package peerlink

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
)

// TestGoneWhileItStarts: the leader's process is gone where connections are refused, and where
// its successor listens but takes no requests yet. One that takes requests and does not
// answer may still lead.
func TestGoneWhileItStarts(t *testing.T) {
	server, client := selfSigned(t)
	wire, err := replica.Listen(new(replica.Sockets), "127.0.0.1:0", "", server, client)
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	p := &Peers{options: Options{Network: new(replica.Sockets), TLS: client}}
	leader := follows{leader: "c1", address: wire.Requests().Addr().String()}
	if p.gone(context.Background(), leader) {
		t.Error("one that does not answer is taken for gone")
	}
	_ = wire.Close()
	if !p.gone(context.Background(), leader) {
		t.Error("one that refuses connections is not gone")
	}
	again, err := replica.Listen(new(replica.Sockets), leader.address, "", server, client)
	if err != nil {
		t.Skipf("needs the address that it had: another program has taken %s: %v", leader.address, err)
	}
	defer again.Close()
	if !p.gone(context.Background(), leader) {
		t.Error("one that has just been started again is not gone")
	}
}

// selfSigned is a certificate that signs itself, for both ends.
func selfSigned(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"peer"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	certificates := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return &tls.Config{Certificates: certificates, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool},
		&tls.Config{Certificates: certificates, RootCAs: pool, ServerName: "peer"}
}
