package peerlink

import (
	"context"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestGoneWhileItStarts: the leader's process is gone where connections are refused, and where
// its successor listens but takes no requests yet. One that takes requests and does not
// answer may still lead.
func TestGoneWhileItStarts(t *testing.T) {
	server, client := prototest.SelfSigned(t)
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
