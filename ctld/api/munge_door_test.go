package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/munge"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// fromAddress is a connection that comes from an address.
type fromAddress struct {
	net.Conn
	address netip.AddrPort
}

func (f fromAddress) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(f.address) }

// mungePolicy believes credentials for 1000 to 1999 from 10.1.0.0/16.
func mungePolicy(t *testing.T) *policy.Policy {
	t.Helper()
	site := *policy.Default()
	site.Logins = []policy.Login{{Munge: []string{"10.1.0.0/16"}, MinUID: 1000, MaxUID: 1999}}
	normal, err := policy.Normalize(&site)
	if err != nil {
		t.Fatal(err)
	}
	return normal
}

// come knocks at the door from an address, and sends something.
func come(door *mungeDoor, from string, sent []byte) <-chan error {
	near, far := net.Pipe()
	conn := fromAddress{far, netip.AddrPortFrom(netip.MustParseAddr(from), 1)}
	done := make(chan error, 1)
	go func() {
		_, _ = near.Write(sent)
	}()
	go func() {
		_, err := door.admit(conn, conn, nil)
		_ = far.Close()
		done <- err
	}()
	return done
}

func sent(credential string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(credential))), credential...)
}

// TestMungeDoor: however many credentials come, and however slow munged and those who send
// them are, few are decoded at a time, each within its time, and no address takes the places
// of others.
func TestMungeDoor(t *testing.T) {
	policy := mungePolicy(t)
	open := func() *mungeDoor {
		c := Credentials(nil)
		c.AcceptMunge("/run/munge", policy.MungeLoginOf)
		return c.munge
	}
	t.Run("munged hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var now, most, all atomic.Int32
			door := open()
			door.decode = func(ctx context.Context, _ *tls.ConnectionState, _, _ string) (munge.Credential, error) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				all.Add(1)
				<-ctx.Done()
				return munge.Credential{}, munge.ErrNoDaemon
			}
			begun := time.Now()
			var knocks []<-chan error
			for range 30 {
				knocks = append(knocks, come(door, "10.1.0.7", sent("x")))
			}
			for _, knock := range knocks {
				if err := <-knock; !errors.Is(err, munge.ErrNoDaemon) && !errors.Is(err, munge.ErrBusy) {
					t.Errorf("%v", err)
				}
			}
			if most.Load() != maxMungeDecoding || all.Load() >= 30 || time.Since(begun) > mungeLimit {
				t.Errorf("%d of %d at a time, in %v", most.Load(), all.Load(), time.Since(begun))
			}
		})
	})
	t.Run("slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			door := open()
			door.decode = func(context.Context, *tls.ConnectionState, string, string) (munge.Credential, error) {
				return munge.Credential{UID: 1000}, nil
			}
			begun := time.Now()
			var slow []<-chan error
			for range maxMungeWaitingFrom {
				slow = append(slow, come(door, "10.1.0.7", []byte{0}))
			}
			synctest.Wait()
			if err := <-come(door, "10.1.0.7", sent("x")); !errors.Is(err, munge.ErrBusy) {
				t.Errorf("one more of the same address: %v", err)
			}
			if err := <-come(door, "10.1.0.8", sent("x")); err != nil {
				t.Errorf("another address: %v", err)
			}
			for last := range 3 { // all places
				for range maxMungeWaitingFrom {
					slow = append(slow, come(door, netip.AddrFrom4([4]byte{10, 1, 1, byte(last)}).String(), []byte{0}))
				}
			}
			synctest.Wait()
			if err := <-come(door, "10.1.0.8", sent("x")); !errors.Is(err, munge.ErrBusy) {
				t.Errorf("with all places taken: %v", err)
			}
			if err := <-come(door, "10.2.0.1", nil); err == nil || !strings.Contains(err.Error(), "from 10.2.0.1") {
				t.Errorf("an address that is not named: %v", err)
			}
			if time.Since(begun) > 0 {
				t.Errorf("somebody waited: %v", time.Since(begun))
			}
			for _, knock := range slow {
				if err := <-knock; err == nil {
					t.Error("who sent half a length is admitted")
				}
			}
			if time.Since(begun) != mungeLimit || len(door.waiting.taken) > 0 {
				t.Errorf("they stayed for %v, and %v places are taken", time.Since(begun), door.waiting.taken)
			}
		})
	})
}

// TestMungeCounts: a request by a credential counts for its user on whatever way it comes,
// and for the address if that may not speak for the user.
func TestMungeCounts(t *testing.T) {
	g := newGate(t)
	if result, err := g.Propose(t.Context(), state.ApplyPolicy{Policy: *mungePolicy(t)}, state.RequestID{}); err != nil || result.Refused != nil {
		t.Fatal(err, result.Refused)
	}
	login := g.View().Policy().MungeLoginOf(netip.MustParseAddr("10.1.0.7"))
	for proof, want := range map[string]string{
		"1000 10.1.0.7": "user 1000", "999 10.1.0.7": "munge 10.1.0.7", "0 10.1.0.7": "munge 10.1.0.7", "1000 10.2.0.7": "munge 10.2.0.7",
		"1000 ::ffff:10.1.0.7": "user 1000", "x 10.1.0.7": strangers, "1000": strangers, "": strangers,
	} {
		remote := &peer.Peer{AuthInfo: linkInfo{name: "c2"}}
		header := metadata.Pairs(metadataCaller, mungeProof+" "+proof, metadataTrusted, "no")
		if got := g.countsFor(peer.NewContext(t.Context(), remote), &tap.Info{FullMethodName: pb.Controller_Submit_FullMethodName, Header: header}); got != want {
			t.Errorf("%q through another controller counts for %q, want %q", proof, got, want)
		}
	}
	for uid, want := range map[uint32]string{1999: strangers, 2000: "munge 10.1.0.7", 0: "munge 10.1.0.7"} {
		if got := mungePerson(login, uid, netip.MustParseAddr("10.1.0.7")); got != want {
			t.Errorf("%d counts for %q, want %q", uid, got, want)
		}
	}
	shown := &peer.Peer{AuthInfo: mungeInfo{uid: 1000, person: "user 1000"}}
	header := metadata.Pairs("gleaner-login-uid", "1001", metadataJob, "1.1", metadataUID, "1001")
	if got := g.countsFor(peer.NewContext(t.Context(), shown), &tap.Info{FullMethodName: pb.NodeLink_Session_FullMethodName, Header: header}); got != "user 1000" {
		t.Errorf("whatever it says of others, it counts for %q", got)
	}
}

// TestMungeWaitsApart: who has no certificate does not take the place of a handshake while
// munge is waited for, and gives all places back.
func TestMungeWaitsApart(t *testing.T) {
	authority, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config, err := authority.ServerConfig("c1")
	if err != nil {
		t.Fatal(err)
	}
	config.ClientAuth, config.SessionTicketsDisabled = tls.VerifyClientCertIfGiven, true // nobody reads tickets from the pipe
	c := Credentials(config)
	c.AcceptMunge("/nowhere", mungePolicy(t).MungeLoginOf)
	c.munge.decode = func(context.Context, *tls.ConnectionState, string, string) (munge.Credential, error) {
		return munge.Credential{UID: 1000}, nil
	}
	near, far := net.Pipe()
	done := make(chan credentials.AuthInfo, 1)
	go func() {
		_, info, _ := c.ServerHandshake(fromAddress{far, netip.MustParseAddrPort("10.1.0.7:1")})
		done <- info
	}()
	client := tls.Client(near, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err := client.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	taken := func(p *places) int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.taken)
	}
	prototest.Eventually(t, "it waits for a credential", func() bool { return taken(&c.munge.waiting) == 2 })
	if got := taken(&c.handshakes); got > 0 {
		t.Errorf("%d places of handshakes are taken meanwhile", got)
	}
	if _, err := client.Write(sent("x")); err != nil {
		t.Fatal(err)
	}
	answer := []byte{1, 1}
	if _, err := io.ReadFull(client, answer); err != nil || !bytes.Equal(answer, []byte{0, 0}) {
		t.Errorf("the answer is %v, %v", answer, err)
	}
	if info, ok := (<-done).(mungeInfo); !ok || info.uid != 1000 || info.from.String() != "10.1.0.7" {
		t.Errorf("admitted as %+v", info)
	}
	if taken(&c.munge.waiting) > 0 || taken(&c.open) != 1 {
		t.Errorf("places are taken: %v, %v", c.munge.waiting.taken, c.open.taken)
	}
}
