package ctld

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/audit"
	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/finding"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/login"
	"github.com/gleaner-hpc/gleaner/proto/munge"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// withMunge has a controller ask this munged.
func withMunge(socket string) func(*Config) {
	return func(config *Config) { config.Listen, config.MungeSocket = "127.0.0.1:0", socket }
}

// authorityOnly is a directory with ca.pem and no certificate, as on a host with munge.
func authorityOnly(t *testing.T, dataDir string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(PKIDir(dataDir), "ca.pem"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ca.pem"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// mungeAs connects as a user of whom munged knows, without a certificate.
func mungeAs(t *testing.T, target, tlsDir, munged string, uid int) *grpc.ClientConn {
	t.Helper()
	t.Setenv(dial.EnvironmentTLSDir, tlsDir)
	t.Setenv(dial.EnvironmentMunge, prototest.MungedFor(t, munged, uid, uid))
	return connectTo(t, target, "")
}

// TestMungeUsers: munged's word names the user, the policy says for whom it counts from
// where, and nothing that the client says about itself does.
func TestMungeUsers(t *testing.T) {
	munged := prototest.Munged(t, 1)
	h := newHostsOf(t, withMunge(munged))
	tlsDir, target := authorityOnly(t, h.config.DataDir), h.server.Addresses()[1]
	client := func(uid int) pb.ControllerClient {
		return pb.NewControllerClient(mungeAs(t, target, tlsDir, munged, uid))
	}
	refused := func(what, why string, client pb.ControllerClient, pairs ...string) {
		t.Helper()
		_, err := client.Submit(metadata.AppendToOutgoingContext(soon(t), pairs...), job(func(r *pb.SubmitRequest) { r.AsUser = "" }))
		if code := status.Code(err); code != codes.PermissionDenied && code != codes.Unavailable || !strings.Contains(status.Convert(err).Message(), why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("without a word in the policy", "no [[login]] in cluster.toml believes credentials from 127.0.0.1", client(1))
	h.allow(&pb.Login{Hosts: "login1", MinUid: 1, MaxUid: 9}, &pb.Login{Munge: []string{"127.0.0.2", "10.0.0.0/8"}, MinUid: 1, MaxUid: 9})
	refused("from a host that is not named", "no [[login]] in cluster.toml believes credentials from 127.0.0.1", client(1))
	if _, err := client(1).Ping(soon(t), &pb.PingRequest{}); err == nil {
		t.Error("a ping from a host that is not named is answered")
	}

	h.allow(&pb.Login{Munge: []string{"127.0.0.0/8"}, MinUid: 1, MaxUid: 2, Users: []string{"daemon"}})
	daemon := client(1)
	submitted, err := daemon.Submit(soon(t), job(func(r *pb.SubmitRequest) { r.AsUser = "" }))
	if err != nil {
		t.Fatal(err)
	}
	if mine, _ := h.server.cluster.View().Job(submitted.GetJobId()); mine.Owner().UID != 1 || mine.Owner().User != "daemon" {
		t.Errorf("the job belongs to %+v", mine.Owner())
	}
	h.auditedMunge(submitted.GetJobId())
	refused("a name that is not among its users", "not among its users", client(2))
	refused("the number of another domain", "not from 1 to 2", client(13))
	refused("a number that nobody has", "knows no user", client(3999999))
	refused("root", "nobody speaks for root", client(0))
	refused("nobody", "nobody", client(65534))
	refused("who says to be a login agent", "only the agent", daemon, login.KeyUID, "2", login.KeyUser, "bin")
	refused("who says to be a node", "only a node", daemon, "gleaner-job", "1.1", "gleaner-uid", "2", "gleaner-node", "n1")
	refused("who says to be a controller", "only a controller", daemon, "gleaner-caller", "uid 0 root")
	refused("who says what munged says", "only a controller", daemon, "gleaner-caller", "munge 2 127.0.0.1")
	if _, err := daemon.Submit(soon(t), job(func(r *pb.SubmitRequest) { r.AsUser = "bin" })); status.Code(err) != codes.PermissionDenied {
		t.Errorf("daemon submits as bin: %v", err)
	}
	if _, err := daemon.RenewCertificate(soon(t), &pb.RenewCertificateRequest{Request: []byte("x")}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "only who shows a certificate") {
		t.Errorf("a credential becomes a certificate: %v", err)
	}
	session, err := pb.NewNodeLinkClient(mungeAs(t, target, tlsDir, munged, 0)).Session(soon(t))
	if err == nil {
		_ = session.Send(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: &pb.Register{Node: "n1", Inventory: &pb.Inventory{Cpus: 1, MemoryBytes: 1 << 30}}}})
		_, err = session.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("root registers a node by munge: %v", err)
	}

	config, err := h.admin.ShowConfig(soon(t), &pb.ShowConfigRequest{})
	if err != nil {
		t.Fatal(err)
	}
	config.Policy.Administrators = []string{"daemon"}
	apply := func(client pb.ControllerClient, dryRun bool) error {
		_, err := client.ApplyPolicy(soon(t), &pb.ApplyPolicyRequest{RequestId: uuid.NewString(), Policy: config.Policy, DryRun: dryRun})
		return err
	}
	if err := apply(h.admin, false); err != nil {
		t.Fatal(err)
	}
	refused("an administrator who is not named, on an open connection", "privileged", daemon)
	config.Policy.Logins[0].Privileged = []string{"daemon"}
	if err := errors.Join(apply(h.admin, false), apply(daemon, true)); err != nil {
		t.Errorf("an administrator who is named: %v", err)
	}
	h.allow()
	refused("after the policy names nobody, on an open connection", "no [[login]]", daemon)
}

// auditedMunge: the line of a submission names who asked and by what.
func (h *hostsOf) auditedMunge(id uint32) {
	h.t.Helper()
	text, err := os.ReadFile(h.config.auditPath())
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			h.t.Fatal(err)
		}
		if len(e.Jobs) == 1 && e.Jobs[0].Job == strconv.FormatUint(uint64(id), 10) {
			if e.User != "daemon" || e.VouchedBy != "munge 127.0.0.1" || e.Certificate != "" || !strings.HasPrefix(e.From, "127.0.0.1:") {
				h.t.Errorf("audited as %s", line)
			}
			return
		}
	}
	h.t.Errorf("no line names job %d", id)
}

// TestMungeThroughAnother: a credential may be shown to any controller; what it says is
// judged by the leader, in the same way.
func TestMungeThroughAnother(t *testing.T) {
	munged := prototest.Munged(t, 1)
	c := startCluster(t, 2, withMunge(munged))
	follower := c.followers()[0]
	h := &hostsOf{t: t, admin: c.client(c.leader())}
	h.allow(&pb.Login{Munge: []string{"127.0.0.1"}, MinUid: 1, MaxUid: 1})
	tlsDir, target := authorityOnly(t, c.configs[c.names()[0]].DataDir), c.servers[follower].Addresses()[1]
	daemon := pb.NewControllerClient(mungeAs(t, target, tlsDir, munged, 1))
	var submitted *pb.SubmitResponse
	c.eventually("the follower knows the policy", func() bool {
		var err error
		submitted, err = daemon.Submit(soon(t), job(func(r *pb.SubmitRequest) { r.AsUser = "" }))
		return err == nil
	})
	if found := list(t, c.conns[c.leader()], &pb.JobFilter{Ids: []*pb.JobId{{Job: submitted.GetJobId()}}}); found[0].GetOwner().GetUser() != "daemon" {
		t.Errorf("the job belongs to %v", found[0].GetOwner())
	}
	if answer, err := daemon.Ping(soon(t), &pb.PingRequest{}); err != nil || answer.GetRole() != "follower" {
		t.Errorf("the follower answers for itself: %v, %v", answer, err)
	}
	if _, err := pb.NewControllerClient(mungeAs(t, target, tlsDir, munged, 2)).Submit(soon(t), job(func(r *pb.SubmitRequest) { r.AsUser = "" })); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the number of another domain: %v", err)
	}
	// A controller says what munged said, not who that is.
	member := pb.NewControllerClient(linkTo(t, c, c.other(c.leader()), c.leader()))
	for proof, want := range map[string]codes.Code{
		"munge 1 127.0.0.1": codes.OK, "munge 1 127.0.0.2": codes.PermissionDenied, "munge 0 127.0.0.1": codes.PermissionDenied, "munge 2 127.0.0.1": codes.PermissionDenied,
		"munge x 127.0.0.1": codes.Internal, "munge 1 x": codes.Internal, "munge 1": codes.Internal, "munge": codes.Internal, "munge 4294967297 127.0.0.1": codes.Internal, "munge 1 fe80::1%lo": codes.Internal,
	} {
		ctx := metadata.AppendToOutgoingContext(asCaller(soon(t), proof), "gleaner-trusted", "yes")
		if _, err := member.ListPartitions(ctx, &pb.ListPartitionsRequest{}); status.Code(err) != want {
			t.Errorf("a member passes on %q: %v", proof, err)
		}
	}
	asNode := metadata.AppendToOutgoingContext(asCaller(soon(t), "munge 1 127.0.0.1"), "gleaner-trusted", "yes")
	session, err := pb.NewNodeLinkClient(linkTo(t, c, c.other(c.leader()), c.leader())).Session(asNode)
	if err == nil {
		_ = session.Send(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: &pb.Register{Node: "n1", Inventory: &pb.Inventory{Cpus: 1, MemoryBytes: 1 << 30}}}})
		_, err = session.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a member passes on a user as a node: %v", err)
	}
}

// wire is a client of its own making, without a certificate.
type wire struct {
	*tls.Conn
	t *testing.T
}

// tlsTo connects from an address of this host.
func tlsTo(t *testing.T, target, tlsDir, from string) *wire {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tlsDir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := tls.DialWithDialer(dialer, "tcp", target, &tls.Config{MinVersion: tls.VersionTLS13, ServerName: dial.ServerName, RootCAs: pool, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(prototest.Patience))
	return &wire{conn, t}
}

// payload is what a credential must hold on this connection.
func (w *wire) payload() []byte {
	w.t.Helper()
	state := w.ConnectionState()
	secret, err := state.ExportKeyingMaterial("EXPORTER-gleaner-munge", nil, 32)
	if err != nil {
		w.t.Fatal(err)
	}
	return append([]byte("gleaner munge 1\n"), secret...)
}

// show sends a credential and reads why it is refused; "" = it is not. A connection that ends
// is a refusal too.
func (w *wire) show(credential string) (refusal string) {
	w.t.Helper()
	_, _ = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(credential))), credential...))
	return w.refusal()
}

func (w *wire) refusal() string {
	w.t.Helper()
	var size [2]byte
	if _, err := io.ReadFull(w, size[:]); err != nil {
		return err.Error()
	}
	text := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(w, text); err != nil {
		return err.Error()
	}
	return string(text)
}

// TestMungeAttacks: a credential is good once, on the connection that it was made for, with
// the cluster's key; and who shows none gets no word of an answer.
func TestMungeAttacks(t *testing.T) {
	ctx := t.Context()
	munged, foreign := prototest.Munged(t, 1), prototest.Munged(t, 2)
	h, other := newHostsOf(t, withMunge(munged)), newHostsOf(t, withMunge(munged))
	h.allow(&pb.Login{Munge: []string{"127.0.0.1"}, MinUid: 1, MaxUid: 9})
	other.allow(&pb.Login{Munge: []string{"127.0.0.1"}, MinUid: 1, MaxUid: 9})
	tlsDir, target := authorityOnly(t, h.config.DataDir), h.server.Addresses()[1]
	daemon := prototest.MungedFor(t, munged, 1, 1)
	encode := func(socket string, payload []byte) string {
		t.Helper()
		text, err := munge.Encode(ctx, socket, payload)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	connect := func() *wire { return tlsTo(t, target, tlsDir, "127.0.0.1") }

	good := connect()
	if why := good.show(encode(daemon, good.payload())); why != "" {
		t.Fatalf("what all others differ from is refused: %s", why)
	}
	victim, thief := connect(), connect()
	stolen := encode(daemon, victim.payload())
	if why := thief.show(stolen); why != munge.ErrOtherConnection.Error() {
		t.Errorf("stolen before it was shown: %q", why)
	}
	if why := victim.show(stolen); why != munge.ErrReplayed.Error() { // munged has seen it
		t.Errorf("shown after a thief showed it: %q", why)
	}
	elsewhere := tlsTo(t, other.server.Addresses()[1], authorityOnly(t, other.config.DataDir), "127.0.0.1")
	if why := connect().show(encode(daemon, elsewhere.payload())); why != munge.ErrOtherConnection.Error() {
		t.Errorf("made for another cluster: %q", why)
	}
	w := connect()
	if why := w.show(encode(foreign, w.payload())); why != munge.ErrInvalid.Error() {
		t.Errorf("of another key: %q", why)
	}
	w = connect()
	if why := w.show(encode(daemon, append(w.payload(), 0))); why != munge.ErrOtherConnection.Error() {
		t.Errorf("with more than its payload: %q", why)
	}
	for _, text := range []string{"", "x", "MUNGE:", "MUNGE:AwQDAAB:", strings.Repeat("A", 4096)} {
		if why := connect().show(text); why != munge.ErrInvalid.Error() && !strings.HasPrefix(why, munge.ErrInvalid.Error()+" (") {
			t.Errorf("%.20q: %q", text, why)
		}
	}
	if why := tlsTo(t, target, tlsDir, "127.0.0.2").refusal(); !strings.Contains(why, "credentials from 127.0.0.2") {
		t.Errorf("from a host that is not named, before anything was sent: %q", why)
	}
	// HTTP/2 without a credential: its preface is the length of a credential that is too long.
	w = connect()
	_, _ = w.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	if why := w.refusal(); !strings.Contains(why, "more than") {
		t.Errorf("without a credential: %q", why)
	}
	if rest, _ := io.ReadAll(w); len(rest) > 0 {
		t.Errorf("without a credential the controller says %q", rest)
	}
	// Without munge_socket there is no second way in, and with it a bad certificate is none.
	plain := newHostsOf(t)
	if _, err := pb.NewControllerClient(mungeAs(t, plain.server.Addresses()[1], authorityOnly(t, plain.config.DataDir), munged, 1)).Ping(soon(t), &pb.PingRequest{}); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "munge_socket") {
		t.Errorf("a controller without munge: %v", err)
	} else if _, final, found := munge.Refusal(status.Convert(err).Message()); !final || !found {
		t.Errorf("a controller without munge is asked again: %v", err)
	}
	if _, err := pb.NewControllerClient(h.connect(other.certificate(pki.User, "daemon"))).Ping(soon(t), &pb.PingRequest{}); err == nil {
		t.Error("a certificate of another authority was believed")
	}
}

// TestMungeCrowd: those who have no certificate and say nothing are noticed neither by who
// has one nor by who comes from another address, and when they are gone others of theirs
// come in.
func TestMungeCrowd(t *testing.T) {
	munged := prototest.Munged(t, 1)
	h := newHostsOf(t, withMunge(munged))
	h.allow(&pb.Login{Munge: []string{"127.0.0.0/29"}, MinUid: 1, MaxUid: 9})
	tlsDir, target := authorityOnly(t, h.config.DataDir), h.server.Addresses()[1]
	user := h.certificate(pki.User, "daemon")
	crowd := []*wire{}
	for range 70 { // more than one address has places for
		crowd = append(crowd, tlsTo(t, target, tlsDir, "127.0.0.3"))
	}
	if _, err := pb.NewControllerClient(h.connect(user)).Ping(soon(t), &pb.PingRequest{}); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	daemon := pb.NewControllerClient(mungeAs(t, target, tlsDir, munged, 1))
	if _, err := daemon.Ping(soon(t), &pb.PingRequest{}); err != nil {
		t.Errorf("from another address: %v", err)
	}
	for _, w := range crowd {
		_ = w.Close()
	}
	as := prototest.MungedFor(t, munged, 1, 1)
	prototest.Eventually(t, "a place is free", func() bool {
		w := tlsTo(t, target, tlsDir, "127.0.0.3")
		text, err := munge.Encode(t.Context(), as, w.payload())
		return err == nil && w.show(text) == ""
	})
}

// TestMungeSocket: what cannot be a socket of munged is refused before anything is changed,
// and gdoctor says whether munged answers.
func TestMungeSocket(t *testing.T) {
	for want, config := range map[string]Config{
		"absolute path": {MungeSocket: "munge.socket", Listen: "c1:1"}, "at most 107": {MungeSocket: "/" + strings.Repeat("x", 120), Listen: "c1:1"},
		"set listen": {MungeSocket: "/run/munge/munge.socket.2"}, "": {},
	} {
		err := config.checkMunge()
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v", config, err)
		}
	}
	path := filepath.Join(t.TempDir(), "gctld.toml")
	if err := os.WriteFile(path, []byte("listen = \"c1:1\"\nmunge_sockets = \"/run/m\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadConfig(path); err == nil || !strings.Contains(err.Error(), "munge_socket") {
		t.Errorf("an unknown key: %v", err)
	}
	if found := examineMunge(t.Context(), "/nowhere"); found.Status != finding.Failed || !strings.Contains(found.Seen, "nothing listens on /nowhere") {
		t.Errorf("without munged: %+v", found)
	}
	if found := examineMunge(t.Context(), prototest.Munged(t, 1)); found.Status != finding.OK {
		t.Errorf("with munged: %+v", found)
	}
}
