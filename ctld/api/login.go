package api

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/proto/login"
)

// This file decides who a user of a login host is, or of a node: its agent says the number
// and the name that the kernel and the name service there have for whoever called it. It is
// believed as far as the policy lets that host vouch ([[login]] in cluster.toml), and only
// if number and name belong together here too.

// saysUser reports whether the request names a user of the host it comes from.
func saysUser(md metadata.MD) bool {
	return len(md.Get(login.KeyUID)) > 0 || len(md.Get(login.KeyUser)) > 0
}

// userOf is the user for whom a host vouches.
func (s *core) userOf(ctx context.Context, from *caller, md metadata.MD) (*caller, error) {
	host, kind := from.host, "host"
	if host == "" {
		host, kind = from.node, "node"
	}
	switch {
	case host == "":
		return nil, status.Error(codes.PermissionDenied, "only the agent of a login host or of a node, with the certificate of that host, may say which of its users asks")
	case !saysUser(md):
		return nil, status.Errorf(codes.PermissionDenied, "the certificate of host %s is for its agent, which says which of its users asks: start gleaner agent there, and leave GLEANER_TLS_DIR unset", host)
	case len(md.Get(metadataJob)) > 0 || len(md.Get(metadataUID)) > 0:
		return nil, status.Errorf(codes.PermissionDenied, "%s %s speaks for a job and for a user at once", kind, host)
	}
	user := first(md, login.KeyUser)
	uid, err := strconv.ParseUint(first(md, login.KeyUID), 10, 32)
	if err != nil || user == "" {
		return nil, status.Errorf(codes.PermissionDenied, "%s %s does not say who asks: a number and a name", kind, host)
	}
	if err := s.confirm(ctx); err != nil { // who may vouch for whom is the newest policy's word
		return nil, err
	}
	vouched := &caller{uid: uint32(uid), isUser: true, user: user, vouchedBy: kind + " " + host, via: from.via, serial: from.serial}
	if why := s.unvouched(vouched, host); why != "" {
		return nil, status.Errorf(codes.PermissionDenied, "%s vouches for user %.60q (%d): %s", vouched.vouchedBy, user, uid, why)
	}
	return vouched, nil
}

// unvouched says why a host does not speak for a user; "" = it does.
func (s *core) unvouched(of *caller, host string) string {
	may := s.cluster.View().Policy().LoginOf(host)
	if may == nil {
		return "no [[login]] in cluster.toml lets it vouch for anybody: add one with hosts = \"" + host + "\", and gcontrol apply -f cluster.toml"
	}
	account, err := lookupUID(of.uid)
	if err == nil && account.GetUser() != of.user {
		return "on the controller's host this number is another user's: all hosts must have the same accounts"
	}
	return s.notTheirs(may, of, err)
}

// notTheirs says why a [[login]] does not cover a user; "" = it does. err is that of the
// user's account.
func (s *core) notTheirs(may *policy.Login, of *caller, err error) string {
	switch {
	case isStranger(err):
		return "the controller's host knows no user of this number: all hosts must have the same accounts"
	case err != nil:
		return err.Error()
	}
	if why := may.Problem(of.uid, of.user, s.hasRights(of)); why != "" {
		return why + "; [[login]] of cluster.toml says whom it may vouch for"
	}
	return ""
}

// hasRights reports whether the caller has rights over others, of which a host that others
// broke into must have none.
func (s *core) hasRights(of *caller) bool {
	if s.isAdministrator(of) {
		return true
	}
	user, known := s.cluster.View().User(of.user)
	return known && user.Level != state.NoAdmin
}

// vouches is the login host or node that shows this certificate; "" = another holder does.
func vouches(info credentials.TLSInfo) string {
	if len(info.State.PeerCertificates) == 0 {
		return ""
	}
	if kind, name, ok := pki.Holder(info.State.PeerCertificates[0]); ok && (kind == pki.Host || kind == pki.Node) {
		return name
	}
	return ""
}

// vouchesThere is the same for what another controller passes on.
func vouchesThere(md metadata.MD) string {
	kind, name, _ := strings.Cut(first(md, metadataCaller), " ")
	if kind == "host" || kind == "node" {
		return name
	}
	return ""
}

// loginHost is what connections of a login host count for; "" = another holder's.
func loginHost(info credentials.TLSInfo) string {
	if len(info.State.PeerCertificates) == 0 {
		return ""
	}
	if kind, name, ok := pki.Holder(info.State.PeerCertificates[0]); ok && kind == pki.Host {
		return "host " + name
	}
	return ""
}

// countsFrom is whom a request counts for that a host says a user makes. Whom the host may
// not speak for loses nothing by it.
func (s *core) countsFrom(host string, md metadata.MD) string {
	uid, err := strconv.ParseUint(first(md, login.KeyUID), 10, 32)
	if err != nil || !s.cluster.View().Policy().LoginOf(host).MayCount(uint32(uid)) {
		return "host " + host
	}
	return numbered(uint32(uid))
}
