package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/dial"
)

func open(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, kind Kind, name string) tls.Certificate {
	t.Helper()
	certificate, key, err := a.Issue(kind, name)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// shake connects two configurations; it answers what the server saw.
func shake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	clientErr := make(chan error, 1)
	go func() {
		conn, err := tls.Dial("tcp", listener.Addr().String(), client)
		if err == nil {
			_, err = io.ReadAll(conn)
			_ = conn.Close()
		}
		clientErr <- err
	}()
	raw, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Server(raw, server)
	err = conn.Handshake()
	state := conn.ConnectionState()
	_ = conn.Close()
	return state, errors.Join(err, <-clientErr)
}

func clientConfig(a *Authority, pair tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: a.pool(), ServerName: dial.ServerName, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}
}

func TestAuthorityIsKept(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	if second := open(t, dir); !first.certificate.Equal(second.certificate) {
		t.Fatal("another authority after reopening")
	}
	if err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "ca-key.pem")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrAuthority) || !strings.Contains(err.Error(), "ca-key.pem") {
		t.Fatalf("without its key: %v", err)
	}
}

func TestHandshakes(t *testing.T) {
	a, stranger := open(t, t.TempDir()), open(t, t.TempDir())
	server, err := a.ServerConfig("c1")
	if err != nil {
		t.Fatal(err)
	}
	peer, peerClient, err := a.PeerConfigs("c1")
	if err != nil {
		t.Fatal(err)
	}
	asServer := func(pair tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{pair}} }
	cases := []struct {
		name           string
		server, client *tls.Config
		works          bool
	}{
		{"node to controller", server, clientConfig(a, issue(t, a, Node, "n1")), true},
		{"user to controller", server, clientConfig(a, issue(t, a, User, "ann")), true},
		{"stranger's node", server, clientConfig(a, issue(t, stranger, Node, "n1")), false},
		{"no certificate", server, &tls.Config{RootCAs: a.pool(), ServerName: dial.ServerName, NextProtos: []string{"h2"}}, false},
		{"peer to peer", peer, peerClient, true},
		{"node as a peer", peer, clientConfig(a, issue(t, a, Node, "n1")), false},
		{"node as a controller", asServer(issue(t, a, Node, dial.ServerName)), clientConfig(a, issue(t, a, Node, "n2")), false},
		{"stranger as a controller", asServer(issue(t, stranger, Controller, "c1")), clientConfig(a, issue(t, a, Node, "n2")), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := shake(t, c.server, c.client); (err == nil) != c.works {
				t.Fatalf("handshake: %v", err)
			}
		})
	}
}

func TestHolder(t *testing.T) {
	a := open(t, t.TempDir())
	pair := issue(t, a, Node, "n1")
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if kind, name, ok := Holder(leaf); kind != Node || name != "n1" || !ok {
		t.Fatalf("holder: %q %q %v", kind, name, ok)
	}
	for _, bad := range []string{"", "a:b", "a b", "a/b", "a\n", strings.Repeat("x", 61)} {
		if _, _, err := a.Issue(Node, bad); !errors.Is(err, ErrName) {
			t.Errorf("name %q: %v", bad, err)
		}
	}
}

func TestBundleIsWhatDialReads(t *testing.T) {
	a, out := open(t, t.TempDir()), filepath.Join(t.TempDir(), "n1")
	if err := a.WriteBundle(Node, "n1", out); err != nil {
		t.Fatal(err)
	}
	conn, err := dial.Dial([]string{"localhost:1"}, out)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestControllerCertificateIsKept(t *testing.T) {
	a := open(t, t.TempDir())
	first, err := a.own("c1")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := a.own("c1"); err != nil || !first.Leaf.Equal(second.Leaf) {
		t.Fatalf("renewed without need: %v", err)
	}
	if third, err := a.own("c2"); err != nil || first.Leaf.Equal(third.Leaf) {
		t.Fatalf("another name kept the certificate: %v", err)
	}
}

// TestInstallAgainWritesNothing: a controller that joined is started with its
// certificates each time, also while its disk is full.
func TestInstallAgainWritesNothing(t *testing.T) {
	out, dir := filepath.Join(t.TempDir(), "c2"), filepath.Join(t.TempDir(), "pki")
	if err := open(t, t.TempDir()).WriteBundle(Controller, "c2", out); err != nil {
		t.Fatal(err)
	}
	files := func() (list []os.FileInfo) {
		if _, err := Install(out, dir); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		for _, entry := range entries {
			info, infoErr := entry.Info()
			err = errors.Join(err, infoErr)
			list = append(list, info)
		}
		if err != nil || len(list) == 0 {
			t.Fatal(err, list)
		}
		return list
	}
	first, second := files(), files()
	for i := range first {
		if !os.SameFile(first[i], second[i]) {
			t.Errorf("%s was rewritten", first[i].Name())
		}
	}
}
