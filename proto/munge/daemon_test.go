package munge

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startMunged runs a real munged with a key, and returns its socket.
func startMunged(t *testing.T, key []byte) string {
	t.Helper()
	program, err := exec.LookPath("munged")
	if err != nil {
		program = "/usr/sbin/munged"
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("needs munged: only it can say whether what goes over the socket is right (apt-get install munge)")
	}
	dir := t.TempDir()
	keyFile, socket := filepath.Join(dir, "key"), filepath.Join(dir, "socket")
	if err := os.WriteFile(keyFile, key, 0o400); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	daemon := exec.Command(program, "--foreground", "--force", "--key-file="+keyFile, "--socket="+socket,
		"--pid-file="+filepath.Join(dir, "pid"), "--seed-file="+filepath.Join(dir, "seed"))
	daemon.Stdout, daemon.Stderr = &said, &said
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		_ = daemon.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			return socket
		}
		if time.Now().After(end) {
			t.Fatal("munged does not listen")
		}
	}
}

func testKey(fill byte) []byte { return bytes.Repeat([]byte{fill}, 128) }

// encodeAs has the daemon see another user: the kernel tells it about the thread.
func encodeAs(t *testing.T, uid, gid int, socket string, payload []byte) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: a thread of the test becomes another user")
	}
	for dir := filepath.Dir(socket); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var text string
	err := errors.New("the thread did not become the user")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends here
		_, _, gidErr := syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid))
		_, _, uidErr := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		if gidErr == 0 && uidErr == 0 {
			text, err = Encode(context.Background(), socket, payload)
		}
	}()
	if <-done; err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDaemon(t *testing.T) {
	ctx := t.Context()
	here, there, foreign := startMunged(t, testKey(1)), startMunged(t, testKey(1)), startMunged(t, testKey(2))
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
	here, there := startMunged(t, testKey(1)), startMunged(t, testKey(1))

	client, server := connected(t)
	shown := make(chan error, 1)
	state := client.ConnectionState()
	go func() { shown <- Show(ctx, client, &state, here) }()
	other := server.ConnectionState()
	found, err := Read(ctx, server, &other, there)
	if err != nil || found.UID != uint32(os.Getuid()) {
		t.Fatalf("%+v, %v", found, err)
	}
	refusal := errors.New("no [[login]] has this network")
	if err := Answer(server, refusal); err != nil {
		t.Fatal(err)
	}
	if err := <-shown; err == nil || err.Error() != RefusedWord+refusal.Error() {
		t.Errorf("the client learns %v", err)
	}

	// A controller, or who reads along there, shows a credential that it was given.
	about, err := payload(&state)
	if err != nil {
		t.Fatal(err)
	}
	stolen, err := Encode(ctx, here, about)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := Encode(ctx, here, []byte("of another program"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"of another connection": stolen, "of another program": foreign} {
		thief, target := connected(t)
		go func() { _ = write(thief, text) }()
		state := target.ConnectionState()
		if _, err := Read(ctx, target, &state, there); !errors.Is(err, ErrOtherConnection) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
