package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
)

// Metadata with which a controller that passes a request on names the caller.
// It is believed only on the address for controllers, which accepts no other
// certificates. The controller that has the connection says what was proved
// there, and the leader looks up who that is: one place decides which name is
// which number, whichever controller was asked.
const (
	metadataCaller  = "gleaner-caller"  // "uid NUMBER NAME", "user NAME", "node NAME", "host NAME", "munge NUMBER ADDRESS" or "controller NAME"
	metadataTrusted = "gleaner-trusted" // "yes": it may speak as a node
	metadataSerial  = "gleaner-serial"  // of the certificate, "" = none
	metadataFrom    = "gleaner-from"    // from where, for the audit log
	ourMetadata     = "gleaner-"        // all of it is passed on
)

// errNotPassedOn is for a caller that sends such metadata and is no controller.
var errNotPassedOn = status.Error(codes.PermissionDenied, "only a controller may say who asks")

// linkInfo is another controller at the other end of a connection.
type linkInfo struct {
	credentials.CommonAuthInfo
	name string
}

// AuthType names the kind of proof.
func (linkInfo) AuthType() string { return "controller" }

// LinkCredentials are for the connections on the address for controllers, whose
// handshake is over.
func LinkCredentials() credentials.TransportCredentials { return &linkCredentials{} }

type linkCredentials struct{ ServerCredentials }

func (*linkCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return nil, nil, fmt.Errorf("a connection of another controller is %T", conn)
	}
	state := secured.ConnectionState()
	if !state.HandshakeComplete || len(state.VerifiedChains) == 0 {
		return nil, nil, errors.New("another controller has shown no certificate")
	}
	kind, name, ok := pki.Holder(state.PeerCertificates[0])
	if !ok || kind != pki.Controller {
		return nil, nil, errors.New("the other end is not a controller")
	}
	return conn, linkInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, name}, nil
}

// Clone returns the same: there is nothing in it.
func (c *linkCredentials) Clone() credentials.TransportCredentials { return c }

// passOn is the metadata of a request that goes to the leader.
func passOn(ctx context.Context, from *caller) context.Context {
	incoming, _ := metadata.FromIncomingContext(ctx)
	outgoing := metadata.MD{}
	for key, values := range incoming {
		if strings.HasPrefix(key, ourMetadata) {
			outgoing[key] = values
		}
	}
	outgoing.Set(metadataCaller, from.proof())
	outgoing.Set(metadataSerial, from.serial)
	outgoing.Set(metadataFrom, connectedFrom(ctx))
	if from.trusted {
		outgoing.Set(metadataTrusted, "yes")
	}
	return metadata.NewOutgoingContext(ctx, outgoing)
}

// proof is what the connection proves, for another controller.
func (c *caller) proof() string {
	switch {
	case c.node != "":
		return "node " + c.node
	case c.host != "":
		return "host " + c.host
	case c.certificate:
		return "user " + c.user
	case c.munge.IsValid():
		return mungeProof + " " + strconv.FormatUint(uint64(c.uid), 10) + " " + c.munge.String()
	}
	return "uid " + strconv.FormatUint(uint64(c.uid), 10) + " " + c.name()
}

func firstIncoming(ctx context.Context, key string) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return first(md, key)
}

// passedOn is the caller, as another controller says.
func (s *core) passedOn(md metadata.MD, by string) (*caller, error) {
	if s.peers == nil || !s.peers.IsMember(by) {
		// The client of that controller can ask another one.
		return nil, status.Errorf(codes.Unavailable, "controller %s does not belong to this cluster any more, or not yet: ask another one (see gcontrol peer list)", by)
	}
	kind, rest, _ := strings.Cut(first(md, metadataCaller), " ")
	from := &caller{trusted: first(md, metadataTrusted) == "yes", via: by, serial: first(md, metadataSerial)}
	switch kind {
	case "node":
		return from, s.named(from, pki.Node, rest)
	case "host":
		return from, s.named(from, pki.Host, rest)
	case "user":
		from.certificate = true
		return from, s.named(from, pki.User, rest)
	case mungeProof:
		uid, address, ok := munged(rest)
		if !ok {
			return nil, status.Errorf(codes.Internal, "controller %s says %q asks, with a credential of munge", by, rest)
		}
		from.uid, from.munge, from.trusted = uid, address, false
	case "controller":
		if rest != by {
			return nil, status.Errorf(codes.PermissionDenied, "controller %s says that controller %.60q asks", by, rest)
		}
		from.controller, from.trusted = by, false
	case "uid":
		number, name, _ := strings.Cut(rest, " ")
		uid, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "controller %s says %q asks", by, rest)
		}
		from.uid, from.isUser = uint32(uid), true
		if here := from.name(); here != name {
			return nil, status.Errorf(codes.PermissionDenied, "user %d is %q on the host of controller %s and %q on that of controller %s: give all controllers' hosts the same accounts", uid, name, by, here, s.cluster.Name())
		}
	default:
		return nil, status.Errorf(codes.Unauthenticated, "controller %s does not say who asks", by)
	}
	return from, nil
}
