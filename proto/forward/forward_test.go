package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// pipes joins a client with an end in a job.
func pipes(t *testing.T) (*Client, <-chan error) {
	t.Helper()
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(far) }()
	c, err := NewClient(near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, served
}

// echo is a server in a job that answers all that it got once it has the end of it.
func echo(t *testing.T) Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				data, _ := io.ReadAll(conn)
				_, _ = conn.Write(data)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	number, _ := strconv.Atoi(port)
	return Target{Port: uint16(number)}
}

// dialed is a connection of a program of this host, and what Carry says of it.
func dialed(t *testing.T, c *Client, to Target) (*net.TCPConn, <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	carried := make(chan error, 1)
	go func() { carried <- c.Carry(accepted, to) }()
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn), carried
}

// TestCarry: bytes and the ends of both directions arrive, on several connections at a time,
// more than their buffers hold; and one that nobody reads holds up no other.
func TestCarry(t *testing.T) {
	c, served := pipes(t)
	to := echo(t)
	stuck, _ := dialed(t, c, to)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	if _, err := stuck.Write(sent); err != nil || stuck.CloseWrite() != nil {
		t.Fatal(err)
	}
	for range 3 {
		conn, carried := dialed(t, c, to)
		go func() {
			_, _ = conn.Write(sent)
			_ = conn.CloseWrite()
		}()
		if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%d of %d bytes came back: %v", len(got), len(sent), err)
		}
		if err := <-carried; err != nil {
			t.Error(err)
		}
	}
	c.Close()
	if err := <-served; err != nil {
		t.Errorf("the job's end ended with %v", err)
	}
}

// TestRefused: who cannot connect says why, and the session goes on.
func TestRefused(t *testing.T) {
	c, _ := pipes(t)
	to := echo(t)
	old := dialer
	t.Cleanup(func() { dialer = old })
	dialer = func(ctx context.Context, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "nowhere:") {
			return nil, errors.New("no such host\x1b[31m" + strings.Repeat("x", 5000))
		}
		return old(ctx, address)
	}
	for _, bad := range []Target{{Port: 1}, {Host: "nowhere", Port: 9}} {
		conn, carried := dialed(t, c, bad)
		refused := (*RefusedError)(nil)
		if err := <-carried; !errors.As(err, &refused) || len(refused.Why) > 300 {
			t.Errorf("%+v: %v", bad, err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("%+v: the connection is open", bad)
		}
	}
	conn, _ := dialed(t, c, to)
	_, _ = conn.Write([]byte("on"))
	_ = conn.CloseWrite()
	if got, err := io.ReadAll(conn); string(got) != "on" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestFull: there is a bound, and a place is free again after a connection.
func TestFull(t *testing.T) {
	c, _ := pipes(t)
	to := echo(t)
	for range MaxConnections - 1 {
		c.places <- struct{}{}
	}
	first, carried := dialed(t, c, to)
	_, _ = first.Write([]byte("x"))
	for len(c.places) < MaxConnections {
		first.SetNoDelay(true) // until it has its place
	}
	_, over := dialed(t, c, to)
	if err := <-over; !errors.Is(err, ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	_ = first.CloseWrite()
	_, _ = io.ReadAll(first)
	<-carried
	second, _ := dialed(t, c, to)
	_ = second.CloseWrite()
	if _, err := io.ReadAll(second); err != nil {
		t.Error(err)
	}
}

// TestHostile: what another program says in place of the job's end ends connections, and
// harms nothing else; what is asked of the job's end likewise.
func TestHostile(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		_, _ = far.Write(bytes.Repeat([]byte{0xff}, 1000))
		_, _ = io.Copy(io.Discard, far)
	}()
	c, err := NewClient(near)
	if err != nil {
		t.Fatal(err)
	}
	_, carried := dialed(t, c, Target{Port: 9})
	if err := <-carried; err == nil {
		t.Error("it was carried to nobody")
	}
	near, far = net.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(far) }()
	_, _ = near.Write(bytes.Repeat([]byte{0xff}, 100))
	if err := <-served; err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "x", "{}\n", strings.Repeat("x", 2*maxLine), `{"port":70000}` + "\n"} {
		var to Target
		if err := readLine(strings.NewReader(text), &to); err == nil && to.Port != 0 {
			t.Errorf("%.20q: %+v", text, to)
		}
	}
}
