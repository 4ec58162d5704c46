package ctld

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// remoteBed is a controller with an address for other hosts.
type remoteBed struct {
	t         *testing.T
	server    *Server
	authority *pki.Authority
	root      pb.ControllerClient
	remote    string
}

func newRemoteBed(t *testing.T) *remoteBed {
	config := configIn(shortDir(t))
	config.Listen = "127.0.0.1:0"
	b := &remoteBed{t: t, server: startServer(t, config)}
	b.remote = b.server.Addresses()[1]
	b.root = pb.NewControllerClient(connectTo(t, b.server.Addresses()[0], ""))
	authority, err := pki.Open(PKIDir(config.DataDir))
	if err != nil {
		t.Fatal(err)
	}
	b.authority = authority
	return b
}

// issue does what gctld cert does and returns the directory and the serial number.
func (b *remoteBed) issue(kind pki.Kind, name string) (dir, serial string) {
	b.t.Helper()
	dir = filepath.Join(b.t.TempDir(), name)
	if err := b.authority.WriteBundle(kind, name, dir); err != nil {
		b.t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		b.t.Fatal(err)
	}
	serial = pki.Serial(pair.Leaf)
	prototest.Eventually(b.t, "the certificate is recorded", func() bool { return b.record(serial) != nil })
	return dir, serial
}

func (b *remoteBed) record(serial string) *pb.Certificate {
	b.t.Helper()
	list, err := b.root.ListCertificates(soon(b.t), &pb.ListCertificatesRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, one := range list.GetCertificates() {
		if one.GetSerial() == serial {
			return one
		}
	}
	return nil
}

func (b *remoteBed) revoke(names ...string) {
	b.t.Helper()
	if _, err := b.root.RevokeCertificates(soon(b.t), &pb.RevokeCertificatesRequest{RequestId: uuid.NewString(), Names: names}); err != nil {
		b.t.Fatal(err)
	}
}

func request(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "user:root"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// TestRevokedIsCut: a node whose certificate is revoked loses the connection that it
// has, and gets no other; a newer certificate admits it again.
func TestRevokedIsCut(t *testing.T) {
	b := newRemoteBed(t)
	dir, serial := b.issue(pki.Node, "n1")
	other, _ := b.issue(pki.Node, "n2")
	n1, n2 := newFakeNode(t, "n1", -1), newFakeNode(t, "n2", -1)
	conn := connectTo(t, b.remote, dir)
	session := soon(t)
	stream, err := n1.open(session, conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n2.connect(connectTo(t, b.remote, other)))
	b.revoke("node:n1")
	for err == nil { // what it was sent before
		_, err = stream.Recv()
	}
	if session.Err() != nil {
		t.Error("a session continued over a certificate that was revoked")
	}
	if _, err := n1.open(soon(t), conn); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another session over it: %v", err)
	}
	if one := b.record(serial); one.GetRevokedMs() == 0 || one.GetRevokedBy() == "" {
		t.Errorf("its record: %v", one)
	}
	n2.renew() // nobody else's connection was cut
	again, _ := b.issue(pki.Node, "n1")
	if _, err := n1.open(soon(t), connectTo(t, b.remote, again)); err != nil {
		t.Errorf("with a newer certificate: %v", err)
	}

	user, _ := b.issue(pki.User, "nobody")
	client := pb.NewControllerClient(connectTo(t, b.remote, user))
	if _, err := client.ListPartitions(soon(t), &pb.ListPartitionsRequest{}); err != nil {
		t.Fatal(err)
	}
	b.revoke("nobody")
	prototest.Eventually(t, "a user's certificate is refused", func() bool {
		_, err := client.ListPartitions(soon(t), &pb.ListPartitionsRequest{})
		return status.Code(err) == codes.PermissionDenied
	})
}

// TestUnknownCertificate: what the authority's key has signed somewhere else admits
// no node, be it of a name that is admitted.
func TestUnknownCertificate(t *testing.T) {
	b := newRemoteBed(t)
	b.issue(pki.Node, "n1")
	elsewhere := t.TempDir()
	for _, file := range []string{"ca.pem", "ca-key.pem"} {
		text, err := os.ReadFile(filepath.Join(PKIDir(b.server.config.DataDir), file))
		if err == nil {
			err = os.WriteFile(filepath.Join(elsewhere, file), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copied, err := pki.Open(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	for what, name := range map[string]string{"a name that is admitted": "n1", "one that is not": "n7"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := copied.WriteBundle(pki.Node, name, dir); err != nil {
			t.Fatal(err)
		}
		if _, err := newFakeNode(t, name, -1).open(soon(t), connectTo(t, b.remote, dir)); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWhoDecidesAboutCertificates: root on a controller's host, and nobody else; the
// holder of one gets a newer one for itself, whatever the request says.
func TestWhoDecidesAboutCertificates(t *testing.T) {
	b := newRemoteBed(t)
	node, _ := b.issue(pki.Node, "n1")
	user, _ := b.issue(pki.User, "nobody")
	root, _ := b.issue(pki.User, "root")
	for who, dir := range map[string]string{"a node": node, "a user": user, "root's certificate": root} {
		client := pb.NewControllerClient(connectTo(t, b.remote, dir))
		_, err := client.RevokeCertificates(soon(t), &pb.RevokeCertificatesRequest{RequestId: uuid.NewString(), Names: []string{"node:n1"}})
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s revokes: %v", who, err)
		}
		_, err = client.RecordCertificates(soon(t), &pb.RecordCertificatesRequest{})
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s records: %v", who, err)
		}
		if _, err := client.ListCertificates(soon(t), &pb.ListCertificatesRequest{}); status.Code(err) != codes.PermissionDenied && who != "root's certificate" {
			t.Errorf("%s lists: %v", who, err)
		}
		forged := metadata.AppendToOutgoingContext(soon(t), "gleaner-serial", "1")
		if _, err := client.ListPartitions(forged, &pb.ListPartitionsRequest{}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s names a serial number: %v", who, err)
		}
	}
	renew := func(conn grpc.ClientConnInterface) (*x509.Certificate, error) {
		answer, err := pb.NewControllerClient(conn).RenewCertificate(soon(t), &pb.RenewCertificateRequest{Request: request(t)})
		if err != nil {
			return nil, err
		}
		return x509.ParseCertificate(answer.GetCertificate())
	}
	for dir, holder := range map[string]string{node: "node:n1", user: "user:nobody"} {
		newer, err := renew(connectTo(t, b.remote, dir))
		if err != nil || newer.Subject.CommonName != holder || len(newer.DNSNames) > 0 || b.record(pki.Serial(newer)) == nil {
			t.Errorf("%s renews: %v, %v", holder, newer, err)
		}
	}
	revoked, serial := b.issue(pki.User, "daemon")
	b.revoke(serial)
	unknown, _ := b.issue(pki.User, "nobody-has-this-name")
	for who, dir := range map[string]string{"a user whose was revoked": revoked, "a user of another host": unknown} {
		if newer, err := renew(connectTo(t, b.remote, dir)); status.Code(err) != codes.PermissionDenied && status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s renews: %v, %v", who, newer, err)
		}
	}
	if _, err := renew(connectTo(t, b.server.Addresses()[0], "")); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without a certificate: %v", err)
	}
	var err error
	for range 16 {
		if _, err = renew(connectTo(t, b.remote, node)); err != nil {
			break
		}
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("renewed again and again: %v", err)
	}
}

// TestRenewal: what a node does when two thirds of its certificate's life are over.
// The key stays, connections continue, and new ones show the new certificate.
func TestRenewal(t *testing.T) {
	b := newRemoteBed(t)
	dir, serial := b.issue(pki.Node, "n1")
	now := time.Now()
	for _, days := range []int{0, 55, 91} {
		if renewal, err := dial.Due(dir, now.AddDate(0, 0, days)); renewal != nil || err != nil {
			t.Errorf("after %d days: %v, %v", days, renewal, err)
		}
	}
	key, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	conn := connectTo(t, b.remote, dir)
	n1 := newFakeNode(t, "n1", -1)
	t.Cleanup(n1.connect(conn))
	ask := func(request []byte) ([]byte, error) {
		answer, err := pb.NewControllerClient(conn).RenewCertificate(soon(t), &pb.RenewCertificateRequest{Request: request})
		return answer.GetCertificate(), err
	}
	late := now.AddDate(0, 0, 61)
	other, _ := b.issue(pki.Node, "n2")
	if renewed, err := dial.Renew(other, late, 0, ask); renewed || err == nil {
		t.Errorf("n2 took n1's certificate: %v", err)
	}
	if renewed, err := dial.Renew(dir, late, 0, ask); !renewed || err != nil {
		t.Fatalf("after two thirds of its life: %v, %v", renewed, err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "key.pem")); err != nil || !bytes.Equal(after, key) {
		t.Errorf("the key is another one, or gone: %v", err)
	}
	n1.renew()
	b.revoke(serial) // the former one, by number
	prototest.Eventually(t, "the node comes with the new one", func() bool {
		_, err := newFakeNode(t, "n1", -1).open(soon(t), conn)
		return err == nil || status.Code(err) == codes.AlreadyExists
	})
}

// TestControllerRenews: so does a controller, also one that joined, which asks the
// one with the authority's key.
func TestControllerRenews(t *testing.T) {
	begun, err := pki.Open(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
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
	config, err := joined.ServerConfig("c2")
	if err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		pair, err := config.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pki.Serial(pair.Leaf)
	}
	first := shown()
	ask := func(request []byte) ([]byte, error) { return begun.Sign(request, pki.Controller, "c2") }
	if renewed, err := joined.Renew("c2", time.Now(), ask); renewed || err != nil || shown() != first {
		t.Errorf("a new one: %v, %v", renewed, err)
	}
	if renewed, err := joined.Renew("c2", time.Now().AddDate(0, 0, 250), ask); !renewed || err != nil || shown() == first {
		t.Errorf("after two thirds: %v, %v", renewed, err)
	}
}
