package direct

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"
)

func key(t *testing.T) *Key {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// listen opens a port for a key, and accepts until the test ends.
func listen(t *testing.T, ours, peer *Key) (string, <-chan net.Conn) {
	t.Helper()
	ports, err := ParsePorts("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := ports.Listen(ours, peer.Sum())
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan net.Conn, 1)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		if conn, err := l.Accept(ctx); err == nil {
			came <- conn
		}
	}()
	t.Cleanup(func() { cancel(); <-over })
	return l.Address(), came
}

// TestDirect: bytes pass between the two who know each other, and the port is closed
// from then on.
func TestDirect(t *testing.T) {
	ours, theirs := key(t), key(t)
	address, came := listen(t, ours, theirs)
	conn, err := Dial(t.Context(), address, theirs, ours.Sum())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	other := <-came
	defer other.Close()
	sent := bytes.Repeat([]byte("an image"), 1<<16)
	go func() { _, _ = other.Write(sent); other.Close() }()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes came, %v", len(got), len(sent), err)
	}
	if late, err := net.Dial("tcp", address); err == nil {
		late.Close()
		t.Error("the port is still open")
	}
}

// TestStrangers: nobody else is answered, whatever they say or do not say, and the right
// one comes through while they knock.
func TestStrangers(t *testing.T) {
	ours, theirs := key(t), key(t)
	address, came := listen(t, ours, theirs)
	for range maxShakes / 2 { // say nothing
		silent, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	begun := time.Now()
	if conn, err := Dial(t.Context(), address, key(t), ours.Sum()); err == nil {
		// With TLS 1.3 whoever dials hears of it with the first byte.
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("a stranger with a key got %d bytes", n)
		}
		conn.Close()
	}
	if conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}); err == nil {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a stranger without a key is answered")
		}
		conn.Close()
	}
	if _, err := Dial(t.Context(), address, theirs, key(t).Sum()); err == nil {
		t.Error("the right one takes another node for the one that it was sent to")
	}
	if len(came) > 0 {
		t.Fatal("a stranger was let in")
	}
	conn, err := Dial(t.Context(), address, theirs, ours.Sum())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	(<-came).Close()
	if took := time.Since(begun); took > shakeLimit {
		t.Errorf("strangers held up the right one for %v", took)
	}
}

// TestNobodyComes: the port closes when nobody waits any longer.
func TestNobodyComes(t *testing.T) {
	ports, _ := ParsePorts("127.0.0.1:0")
	l, err := ports.Listen(key(t), key(t).Sum())
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Dial("tcp", l.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := l.Accept(ctx); err == nil || time.Since(begun) > shakeLimit/2 {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	if late, err := net.Dial("tcp", l.Address()); err == nil {
		late.Close()
		t.Error("the port is still open")
	}
}

func TestPorts(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.5:7900": true, "10.0.0.5:7900-7907": true, "[fd00::5]:0": true,
		"": false, "10.0.0.5": false, "0.0.0.0:7900": false, "[::]:7900": false, "n1:7900": false, "10.0.0.5:": false,
		"10.0.0.5:7907-7900": false, "10.0.0.5:0-9": false, "10.0.0.5:65536": false, "10.0.0.5:1-2-3": false, "224.0.0.1:9": false,
	} {
		if _, err := ParsePorts(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	first, _ := ParsePorts("127.0.0.1:0")
	taken, err := first.Listen(key(t), key(t).Sum())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	ports, err := ParsePorts(taken.Address())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ports.Listen(key(t), key(t).Sum()); err == nil {
		t.Error("a port is opened twice")
	}
	if ports.Last < 65535 {
		ports.Last++
		if next, err := ports.Listen(key(t), key(t).Sum()); err == nil {
			next.Close() // the next one, unless somebody has that
		}
	}
}
