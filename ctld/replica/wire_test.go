package replica

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestAnotherFailureIsNoStart: what fails otherwise than a controller that has just started
// is not taken for one.
func TestAnotherFailureIsNoStart(t *testing.T) {
	wire, client := listenWire(t)
	wire.Requests()
	stranger := client.Clone()
	stranger.RootCAs = x509.NewCertPool()
	if _, err := dialAs(wire, stranger, ProtocolRequests); err == nil || NotServing(err) {
		t.Errorf("a certificate that nobody knows: %v", err)
	}
	if _, err := dialAs(wire, client, ProtocolRequests); err != nil {
		t.Errorf("one that takes requests: %v", err)
	}
	_ = wire.Close()
	if _, err := dialAs(wire, client, ProtocolRequests); err == nil || NotServing(err) {
		t.Errorf("one that is gone: %v", err)
	}
}

func listenWire(t *testing.T) (*Wire, *tls.Config) {
	t.Helper()
	server, client := prototest.SelfSigned(t)
	wire, err := Listen(new(Sockets), "127.0.0.1:0", "", server, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = wire.Close() })
	return wire, client
}

// dialAs shakes hands as one that speaks some protocols.
func dialAs(wire *Wire, client *tls.Config, protocols ...string) (*tls.Conn, error) {
	client = client.Clone()
	client.NextProtos = protocols
	conn, err := tls.Dial("tcp", wire.address.String(), client)
	if err != nil {
		return nil, err
	}
	// With TLS 1.3 what the server thinks of it comes with the first read.
	_ = conn.SetReadDeadline(time.Now().Add(prototest.Patience))
	return conn, nil
}

func TestTwoProtocolsOnOneAddress(t *testing.T) {
	wire, client := listenWire(t)
	transport := wire.Transport(slog.New(slog.DiscardHandler))
	transport.SetHeartbeatHandler(func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Term: 7, Success: true}, nil) })
	if _, err := dialAs(wire, client, ProtocolRequests); !NotServing(err) {
		t.Errorf("a request that nobody takes yet: %v", err)
	}
	requests, accepted := wire.Requests(), make(chan net.Conn, 1)
	go func() {
		conn, err := requests.Accept()
		if err == nil {
			accepted <- conn
		}
	}()
	conn, err := dialAs(wire, client, ProtocolRequests)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got := prototest.Receive(t, "a connection for requests is accepted", accepted)
	if protocol := got.(*tls.Conn).ConnectionState().NegotiatedProtocol; protocol != ProtocolRequests {
		t.Errorf("accepted for requests: %q", protocol)
	}
	// raft's own, through the whole stack.
	request := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, Addr: []byte("x")}, Term: 7}
	var answer raft.AppendEntriesResponse
	if err := transport.AppendEntries("p1", raft.ServerAddress(wire.address.String()), &request, &answer); err != nil || answer.Term != 7 {
		t.Errorf("raft over the wire: %v, %v", answer, err)
	}
	for _, protocols := range [][]string{nil, {"http/1.1"}} {
		conn, err := dialAs(wire, client, protocols...)
		if err != nil {
			continue // refused in the handshake
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.ErrNoProgress) {
			t.Errorf("a connection that speaks %q was kept", protocols)
		} else if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("a connection that speaks %q hangs", protocols)
		}
		_ = conn.Close()
	}
	if err := wire.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.Requests().Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after it was closed: %v", err)
	}
}

// TestStalledHandshakes: those who connect and say nothing hold up nobody, and
// are thrown out.
func TestStalledHandshakes(t *testing.T) {
	wire, client := listenWire(t)
	var silent []net.Conn
	for range 100 {
		conn, err := net.Dial("tcp", wire.address.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	requests, accepted := wire.Requests(), make(chan struct{})
	go func() {
		if conn, err := requests.Accept(); err == nil {
			_ = conn.Close()
			close(accepted)
		}
	}()
	conn, err := dialAs(wire, client, ProtocolRequests)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if limit := handshakeLimit * time.Duration(len(silent)); limit < 2*prototest.Patience {
		t.Fatalf("one behind the other takes only %v", limit)
	}
	prototest.Receive(t, "it does not wait behind those that say nothing", accepted)
	_ = silent[0].SetReadDeadline(time.Now().Add(prototest.Patience))
	if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("one that says nothing: %v", err)
	}
}
