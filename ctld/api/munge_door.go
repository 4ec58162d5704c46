package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/proto/munge"
)

// Bounds of the connections without a certificate that have not yet shown a credential of
// munge either. They are apart from those of the handshakes: who has a certificate never
// waits for them. munged decodes with two threads unless it is told otherwise.
const (
	mungeLimit          = 8 * time.Second
	mungeAnswer         = time.Second // of these, to say what munged did not do in time
	maxMungeWaiting     = 256
	maxMungeWaitingFrom = 64 // one address
	maxMungeDecoding    = 4
)

// mungeInfo is munged's word about who made the credential that came first on a
// connection, and the address from which it came. Whether that is believed is decided with
// each request (byCredential).
type mungeInfo struct {
	credentials.CommonAuthInfo
	uid    uint32
	from   netip.Addr
	person string // the user it counts for, "" = root
	conn   net.Conn
}

// AuthType names the kind of proof.
func (mungeInfo) AuthType() string { return "munge" }

func (m mungeInfo) close() { _ = m.conn.Close() }

// mungeDoor lets in who shows a credential of munge and has no certificate.
type mungeDoor struct {
	socket   string                         // of munged
	login    func(netip.Addr) *policy.Login // for whom an address may speak; nil = for nobody
	decode   func(ctx context.Context, state *tls.ConnectionState, socket, credential string) (munge.Credential, error)
	waiting  places // all, and by address
	decoding chan struct{}
}

// AcceptMunge has clients without a certificate show a credential of munge, which the munged
// at socket decodes, and only from addresses for which login is something.
func (c *ServerCredentials) AcceptMunge(socket string, login func(netip.Addr) *policy.Login) {
	c.munge = &mungeDoor{socket: socket, login: login, decode: munge.Verify, decoding: make(chan struct{}, maxMungeDecoding)}
}

// withoutCertificate is the rest of a handshake in which no certificate was shown.
func (c *ServerCredentials) withoutCertificate(conn, secured net.Conn, about *tls.ConnectionState) (net.Conn, credentials.AuthInfo, error) {
	if c.munge == nil {
		return nil, nil, errors.New("no certificate was shown")
	}
	info, err := c.munge.admit(conn, secured, about)
	var counted net.Conn
	if err == nil {
		counted, err = c.count(secured, info.person)
	}
	if sent := munge.Answer(secured, err); err == nil && sent != nil {
		_ = counted.Close() // gives its place back
		err = sent
	}
	if err != nil {
		return nil, nil, err
	}
	return counted, info, nil
}

// admit reads the credential and has munged decode it, in bounded time.
func (m *mungeDoor) admit(conn, secured net.Conn, about *tls.ConnectionState) (mungeInfo, error) {
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return mungeInfo{}, errors.New("the connection does not say from where it comes")
	}
	from := remote.Addr().Unmap().WithZone("")
	login := m.login(from)
	if login == nil { // without reading anything: whoever is nobody costs nothing
		return mungeInfo{}, errNoMungeLogin(from)
	}
	release, err := m.place(from.String())
	if err != nil {
		return mungeInfo{}, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(context.Background(), mungeLimit-mungeAnswer)
	defer cancel()
	if err := conn.SetDeadline(time.Now().Add(mungeLimit)); err != nil { // gRPC's own is later
		return mungeInfo{}, err
	}
	credential, err := munge.Receive(secured)
	if err != nil {
		return mungeInfo{}, err
	}
	select {
	case m.decoding <- struct{}{}:
		defer func() { <-m.decoding }()
	case <-ctx.Done():
		refusals.WithLabelValues(boundMunge).Inc()
		return mungeInfo{}, munge.ErrBusy
	}
	found, err := m.decode(ctx, about, m.socket, credential)
	switch {
	case errors.Is(err, munge.ErrNoDaemon):
		return mungeInfo{}, fmt.Errorf("on the controller's host %w", err)
	case err != nil:
		return mungeInfo{}, err
	}
	return mungeInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		uid:            found.UID, from: from, person: mungePerson(login, found.UID, from), conn: conn,
	}, nil
}

// place takes a place among the connections that have shown nothing yet.
func (m *mungeDoor) place(address string) (release func(), err error) {
	of, ok := m.waiting.take(address, maxMungeWaitingFrom)
	if ok {
		var all func()
		if all, ok = m.waiting.take("", maxMungeWaiting); ok {
			return func() { all(); of() }, nil
		}
		of()
	}
	refusals.WithLabelValues(boundMunge).Inc()
	return nil, munge.ErrBusy
}

// mungePerson is whom the connection counts for: of users for whom the address may not
// speak it counts for the address, so that they lose nothing by it.
func mungePerson(login *policy.Login, uid uint32, from netip.Addr) string {
	if !login.MayCount(uid) {
		return mungeName(from)
	}
	return personOf(uid)
}

// mungeName is what stands for an address from which credentials come.
func mungeName(from netip.Addr) string { return "munge " + from.String() }

func errNoMungeLogin(from netip.Addr) error {
	return fmt.Errorf("no [[login]] in cluster.toml believes credentials from %s: add one with munge = [%q], and gcontrol apply -f cluster.toml; or use a certificate", from, from.String())
}
