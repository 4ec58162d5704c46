package munge

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// encodeAs has the daemon see another user.
func encodeAs(t *testing.T, uid, gid int, socket string, payload []byte) string {
	t.Helper()
	text, err := Encode(t.Context(), prototest.MungedFor(t, socket, uid, gid), payload)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDaemon(t *testing.T) {
	ctx := t.Context()
	here, there, foreign := prototest.Munged(t, 1), prototest.Munged(t, 1), prototest.Munged(t, 2)
	payload := []byte("a payload\x00of bytes")

	text := encodeAs(t, 4711, 4712, here, payload)
	found, err := Decode(ctx, there, text)
	if err != nil {
		t.Fatal(err)
	}
	if found.UID != 4711 || found.GID != 4712 || !bytes.Equal(found.Payload, payload) || found.TTL != TTL {
		t.Errorf("decoded %+v", found)
	}
	if age := time.Since(found.Encoded); age < -2*time.Second || age > TTL || found.Decoded.Before(found.Encoded) {
		t.Errorf("encoded %v, decoded %v", found.Encoded, found.Decoded)
	}
	if _, err := Decode(ctx, there, text); !errors.Is(err, ErrReplayed) {
		t.Errorf("shown twice: %v", err)
	}
	for name, bad := range map[string]string{"empty": "", "no credential": "x", "cut": text[:len(text)/2], "changed": flip(text), "long": strings.Repeat("x", maxCredential+1)} {
		if _, err := Decode(ctx, there, bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Decode(ctx, foreign, encodeAs(t, 4711, 4712, here, payload)); !errors.Is(err, ErrInvalid) {
		t.Errorf("of another key: %v", err)
	}
	if _, err := Decode(ctx, filepath.Join(t.TempDir(), "none"), text); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("without a daemon: %v", err)
	}
}

func flip(text string) string {
	changed := []byte(text)
	at := len(changed) / 2
	if changed[at] == 'A' {
		changed[at] = 'B'
	} else {
		changed[at] = 'A'
	}
	return string(changed)
}

// connected are both ends of a TLS connection.
func connected(t *testing.T) (client, server *tls.Conn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"gctld"}, NotAfter: time.Now().Add(time.Hour)}
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
	near, far := net.Pipe()
	client = tls.Client(near, &tls.Config{MinVersion: tls.VersionTLS13, ServerName: "gctld", RootCAs: pool})
	server = tls.Server(far, &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	if err := errors.Join(client.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestChannel(t *testing.T) {
	ctx := t.Context()
	here, there := prototest.Munged(t, 1), prototest.Munged(t, 1)

	client, server := connected(t)
	shown := make(chan error, 1)
	state := client.ConnectionState()
	go func() { shown <- Show(ctx, client, &state, here) }()
	other := server.ConnectionState()
	text, err := Receive(server)
	if err != nil {
		t.Fatal(err)
	}
	found, err := Verify(ctx, &other, there, text)
	if err != nil || found.UID != uint32(os.Getuid()) {
		t.Fatalf("%+v, %v", found, err)
	}
	refusal := errors.New("no [[login]] has this network")
	if err := Answer(server, refusal); err != nil {
		t.Fatal(err)
	}
	if err := <-shown; err == nil || err.Error() != RefusedWord+refusesWord+refusal.Error() {
		t.Errorf("the client learns %v", err)
	}

	// A controller, or who reads along there, shows a credential that it was given.
	about, err := payload(&state)
	if err != nil {
		t.Fatal(err)
	}
	for name, payload := range map[string][]byte{"of another connection": about, "of another program": []byte("of another program"), "of nothing": nil} {
		text, err := Encode(ctx, here, payload)
		if err != nil {
			t.Fatal(err)
		}
		_, target := connected(t)
		state := target.ConnectionState()
		if _, err := Verify(ctx, &state, there, text); !errors.Is(err, ErrOtherConnection) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestShort: what is no credential, or does not come, is refused without a daemon.
func TestShort(t *testing.T) {
	for name, sent := range map[string][]byte{"nothing": nil, "half a length": {0}, "less than its length": {0, 5, 'x'}, "too long": {0xff, 0xff}} {
		near, far := net.Pipe()
		go func() { _, _ = near.Write(sent); _ = near.Close() }()
		if text, err := Receive(far); err == nil {
			t.Errorf("%s: %q", name, text)
		}
	}
}
