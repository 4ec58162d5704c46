package api

import (
	"context"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// Metadata with which a node's supervisor vouches for the job, and the user,
// that a request comes from. It is believed only from a node, and only for a
// job that runs there and is that user's.
const (
	metadataJob  = "gleaner-job"  // JOB.EPOCH
	metadataUID  = "gleaner-uid"  // decimal
	metadataNode = "gleaner-node" // name
)

// caller is who sent the request. Exactly one of user, node and host is certain: a
// user has a uid, the certificates of the others have none.
type caller struct {
	uid    uint32
	isUser bool
	// user is the login name when the proof of identity carries one.
	user string
	// certificate: a user's certificate is the proof, not a uid.
	certificate bool
	// node is set for a node's certificate, host for a login host's.
	node, host string
	// vouchedBy is the login host, node or address that says which of its users this is, as
	// in "host login1" or "munge 10.1.0.7"; "" = none.
	vouchedBy string
	// munge is the address from which a credential of munge came that names uid; only
	// byCredential makes a user of it.
	munge netip.Addr
	// controller is another controller that asks on its own behalf.
	controller string
	// serial is the serial number of the certificate, "" = the proof is none.
	serial string
	// trusted is a connection that may speak as a node and vouch for jobs:
	// root or the controller's own user on the unix socket, or a node's
	// certificate.
	trusted bool
	// owner is set when a supervisor vouched for a job: its owner, who acts
	// from inside it and has no administrator's rights there.
	owner *state.Owner
	// via is the controller that passed the request on, "" = none.
	via string
}

// isRoot reports whether this is root, and not a job of root's.
func (c *caller) isRoot() bool { return c.isUser && c.uid == 0 && c.owner == nil }

// String names the caller in the log.
func (c *caller) String() string {
	switch {
	case c == nil:
		return "unknown"
	case c.node != "":
		return "node " + c.node
	case c.host != "":
		return "host " + c.host
	case c.controller != "":
		return "controller " + c.controller
	case c.munge.IsValid():
		return mungeName(c.munge) + " uid " + strconv.FormatUint(uint64(c.uid), 10)
	}
	return "uid " + strconv.FormatUint(uint64(c.uid), 10)
}

// connection reads who is at the other end of the connection itself.
func (s *core) connection(ctx context.Context) (*caller, error) {
	remote, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "the connection does not say who you are")
	}
	md, _ := metadata.FromIncomingContext(ctx)
	if info, ok := remote.AuthInfo.(linkInfo); ok {
		return s.passedOn(md, info.name)
	}
	if len(md.Get(metadataCaller)) > 0 || len(md.Get(metadataTrusted)) > 0 || len(md.Get(metadataSerial)) > 0 {
		return nil, errNotPassedOn
	}
	switch info := remote.AuthInfo.(type) {
	case peerInfo:
		return &caller{uid: info.uid, isUser: true, trusted: info.uid == 0 || int(info.uid) == os.Geteuid()}, nil
	case tlsInfo:
		return s.fromCertificate(info.TLSInfo)
	case mungeInfo:
		return &caller{uid: info.uid, munge: info.from}, nil
	}
	return nil, status.Error(codes.Unauthenticated, "the connection does not say who you are")
}

func (s *core) fromCertificate(info credentials.TLSInfo) (*caller, error) {
	if len(info.State.VerifiedChains) == 0 || len(info.State.PeerCertificates) == 0 {
		return nil, status.Error(codes.Unauthenticated, "no certificate of this cluster was shown")
	}
	shown := info.State.PeerCertificates[0]
	kind, name, ok := pki.Holder(shown)
	if !ok || kind != pki.Node && kind != pki.Host && kind != pki.User {
		return nil, status.Error(codes.PermissionDenied, "this certificate is neither a node's, nor a login host's, nor a user's")
	}
	from := &caller{serial: pki.Serial(shown), certificate: kind == pki.User, trusted: kind == pki.Node}
	return from, s.named(from, kind, name)
}

// named fills in the holder of a certificate. What the log says about the
// certificate is checked with each request, on each controller that it passes:
// one that has just been revoked is good nowhere.
func (s *core) named(from *caller, kind pki.Kind, name string) error {
	if why := s.cluster.View().CertificateProblem(string(kind), name, from.serial); why != "" {
		return status.Errorf(codes.PermissionDenied, "the certificate of %s %s (serial number %s) is refused: %s", kind, name, from.serial, why)
	}
	switch kind {
	case pki.Node:
		from.node = name
		return nil
	case pki.Host:
		from.host = name
		return nil
	}
	account, err := lookupName(name)
	if err != nil {
		return status.Errorf(codes.Unauthenticated, "the certificate names user %q: %v", name, err)
	}
	from.uid, from.isUser, from.user = account.GetUid(), true, account.GetUser()
	return nil
}

// who determines the caller, vouching included.
func (s *core) who(ctx context.Context) (*caller, error) {
	from, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	md, _ := metadata.FromIncomingContext(ctx)
	of := from
	switch {
	case saysUser(md) || from.host != "":
		of, err = s.userOf(ctx, from, md)
	case len(md.Get(metadataJob)) > 0 || len(md.Get(metadataUID)) > 0:
		if !from.trusted {
			return nil, status.Error(codes.PermissionDenied, "only a node may speak for a job")
		}
		of, err = s.vouched(ctx, from, first(md, metadataJob), first(md, metadataUID), first(md, metadataNode))
	case from.munge.IsValid():
		of, err = s.byCredential(ctx, from)
	}
	if err != nil {
		return nil, err
	}
	noteCaller(ctx, of)
	return of, nil
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) == 1 {
		return values[0]
	}
	return ""
}

func (s *core) vouched(ctx context.Context, from *caller, run, uidText, node string) (*caller, error) {
	refuse := func(why string) (*caller, error) {
		return nil, status.Errorf(codes.PermissionDenied, "node %q vouches for job %q of user %q: %s", node, run, uidText, why)
	}
	id, epoch, ok := parseRun(run)
	uid, err := strconv.ParseUint(uidText, 10, 32)
	if !ok || err != nil {
		return refuse("not JOB.EPOCH and a user id")
	}
	if from.node != "" && from.node != node {
		return refuse("its certificate is that of node " + from.node)
	}
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	job, found := s.cluster.View().Job(id)
	if !found || !job.HoldsNodes() || job.Epoch != epoch {
		return refuse("no such run of a job")
	}
	if alloc := job.Alloc(node); alloc == nil || alloc.Released {
		return refuse("the job does not run there")
	}
	owner := job.Owner()
	if owner.UID != uint32(uid) {
		return refuse("the job is another user's")
	}
	return &caller{uid: owner.UID, isUser: true, user: owner.User, owner: owner}, nil
}

// parseRun reads JOB.EPOCH.
func parseRun(text string) (job, epoch uint32, ok bool) {
	left, right, found := strings.Cut(text, ".")
	a, errA := strconv.ParseUint(left, 10, 32)
	b, errB := strconv.ParseUint(right, 10, 32)
	return uint32(a), uint32(b), found && errA == nil && errB == nil && a > 0
}

// reader determines the caller of a request to read, which everybody may, on
// the leader.
func (s *core) reader(ctx context.Context) (*caller, error) {
	from, err := s.who(ctx)
	if err != nil {
		return nil, err
	}
	return from, s.confirm(ctx)
}

// mustBeUser determines the caller and refuses a node that speaks for itself.
func (s *core) mustBeUser(ctx context.Context) (*caller, error) {
	from, err := s.who(ctx)
	if err != nil {
		return nil, err
	}
	if !from.isUser {
		return nil, status.Errorf(codes.PermissionDenied, "node %s is not a user: nodes may not do this", from.node)
	}
	return from, nil
}

// isAdministrator reports whether the caller may act on others' jobs and on the
// cluster: root, one of the policy's administrators, or a user who is one in
// accounting.
func (s *core) isAdministrator(from *caller) bool {
	if !from.isUser || from.owner != nil {
		return false
	}
	if from.uid == 0 {
		return true
	}
	view := s.cluster.View()
	names := view.Policy().Administrators
	if len(names) == 0 && !view.HasAccounts() {
		return false // without looking for the name
	}
	name := from.name()
	if user, known := view.User(name); known && user.Level == state.Administrator && name != "" {
		return true
	}
	for _, administrator := range names {
		if administrator == name && name != "" {
			return true
		}
	}
	return false
}

// mustAdminister refuses everyone but administrators.
func (s *core) mustAdminister(ctx context.Context) (*caller, error) {
	from, err := s.mustBeUser(ctx)
	if err == nil {
		err = s.confirm(ctx)
	}
	if err != nil {
		return nil, err
	}
	if !s.isAdministrator(from) {
		return nil, status.Errorf(codes.PermissionDenied, "Access/permission denied: only root and administrators may do this, and not from inside a job")
	}
	return from, nil
}

// name is the caller's login name, "" when there is none.
func (c *caller) name() string {
	if c.user != "" || !c.isUser {
		return c.user
	}
	if account, err := lookupUID(c.uid); err == nil {
		c.user = account.User
	}
	return c.user
}
