// Package api answers requests: it identifies the caller, validates the
// request, stamps time and id, proposes, and replies. One file per request, one
// type per service: Controller for users and administrators, NodeLink for
// nodes, PeerLink for other controllers. What all three need, above all the
// caller, is in core; Server serves them.
//
// Contract: what is accepted takes effect; what is not supported is refused by
// name, with what to type instead. A reply to a change is sent after the change
// is on a majority of the controllers' disks. The kernel or a certificate
// identifies the caller, never the request. Reading takes a View, which costs
// nothing and delays nobody. Every list is streamed in pieces, every wait has a
// deadline, and a handler that panics costs its own request only.
package api

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/gleaner-hpc/gleaner/ctld/audit"
	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/tally"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// Cluster is what the handlers need of the replicated state.
type Cluster interface {
	View() *state.View
	// Remembered returns the answer to a request that was applied before.
	Remembered(id state.RequestID, kind state.Kind) (state.Result, bool)
	Propose(ctx context.Context, command state.Command, id state.RequestID) (state.Result, error)
	// Follow delivers changes after those in the View that it returns. The
	// channel is closed when the reader is too slow; stop ends the delivery.
	Follow() (changes <-chan Change, view *state.View, stop func())
	IsLeader() bool
	Leader() string
	Name() string
	Term() uint64
	AppliedIndex() uint64
	// Confirm returns nil when a majority has said, after it was called, that
	// this controller leads.
	Confirm(ctx context.Context) error
	// Over is closed when the present leadership of this controller ends.
	Over() <-chan struct{}
	CommitIndex() uint64
	// LastContact is the time since the last contact with the leader; less than
	// 0 = never.
	LastContact() time.Duration
	// Members are the names of the controllers.
	Members() []string
	// Replace replaces the present state by the one in the file, and returns it
	// as it is then. The file is overwritten.
	Replace(ctx context.Context, file *os.File) (*state.View, error)
}

// Change is one applied command that changed something, and the state after.
type Change struct {
	View   *state.View
	Result *state.Result
}

// Loops is what the handlers need of the leader's loops.
type Loops interface {
	// Overlay is why a waiting job waits, if the last plan says so.
	Overlay(job uint32) (state.Overlay, bool)
	// OverlaySaved adds whether a running job can be saved, and why one that
	// was saved cannot resume anywhere.
	OverlaySaved(job *state.Job, overlay *state.Overlay)
	// Snapshot is what a plan of a View would be made from now.
	Snapshot(view *state.View, now time.Time) sched.Snapshot
	Sessions() *session.Registry
	// Work is what the loops have done.
	Work() *tally.Work
	Leading() bool
	// OpenTerm has the log record that this leader's term has begun; it must be
	// called before a lease is granted. It returns at once when it was.
	OpenTerm(ctx context.Context) error
	// Fencing says what a silent node waits for, "" when there is nothing.
	Fencing(node string) string
	Ready(ctx context.Context, s *session.Session, ready *pb.AllocReady) error
	Ended(ctx context.Context, s *session.Session, ended *pb.AllocEnded) error
	Suspended(ctx context.Context, s *session.Session, said *pb.AllocSuspended) error
	Saved(ctx context.Context, s *session.Session, saved *pb.AllocSaved) error
	Checkpointable(s *session.Session, checkpointable *pb.AllocCheckpointable)
	Restores(s *session.Session, answer *pb.RestoreAnswer)
	Fetched(ctx context.Context, s *session.Session, fetched *pb.ImageFetched) error
	// Hurry has what jobs of a node that leaves need looked at now.
	Hurry()
}

// Options describe the controller to the handlers.
type Options struct {
	Version  string
	HostName string
	Settings map[string]string // shown by ShowConfig, with the policy
	Logger   *slog.Logger
	// UnreadLimit is how long a client may leave an answer unread. 0 =
	// DefaultUnreadLimit.
	UnreadLimit time.Duration
	// Peers are the other controllers; nil where none can be reached.
	Peers Peers
	Level uint32 // the newest feature level this controller understands
	// SpoolDirectory is where a snapshot is kept while it arrives; "" = the
	// system's.
	SpoolDirectory string
	// Authority issues certificates; nil where only the socket is served.
	Authority Authority
	// Audit is the log of who did what; nil = none. With AuditRequired nothing
	// is done that cannot be written there.
	Audit         *audit.Log
	AuditRequired bool
	// History has the runs that are over; nil = only those that the state has.
	History History
	// Problems are those of this controller that Status shows; nil = none.
	Problems func() []string
}

// core is what the three services share: the cluster, the caller, and the
// interceptors of every request.
type core struct {
	cluster Cluster
	loops   Loops
	peers   Peers
	options Options
	log     *slog.Logger
	tunnels *tunnels
	places  places
	rates   rates
	metrics *metrics
	tally   tally.Requests
	stop    chan struct{} // closed when the controller is about to stop
}

// Controller answers users and administrators, and controllers that ask on
// their own behalf. It returns only what the caller may see (sight.go).
type Controller struct {
	pb.UnimplementedControllerServer
	*core

	machines  machines
	followers followers
	restoring sync.Mutex
	plans     plans
	readers   historyReaders
}

// Server has the three services, and serves them.
type Server struct {
	*core
	users *Controller
	nodes *NodeLink
	links *PeerLink
}

// NewServer makes the handlers.
func NewServer(cluster Cluster, loops Loops, options Options) *Server {
	if options.History == nil {
		options.History = noHistory{}
	}
	if options.UnreadLimit == 0 {
		options.UnreadLimit = DefaultUnreadLimit
	}
	stop := make(chan struct{})
	shared := &core{cluster: cluster, loops: loops, peers: options.Peers, options: options, log: options.Logger, tunnels: newTunnels(stop), metrics: newMetrics(), stop: stop,
		rates: rates{now: time.Now, log: options.Logger, policy: func() policy.RateLimit { return cluster.View().Policy().Rate }}}
	return &Server{core: shared, users: &Controller{core: shared}, nodes: &NodeLink{core: shared}, links: &PeerLink{core: shared}}
}

// Stop makes the streams that never end by themselves end. Call it once.
func (s *Server) Stop() { close(s.stop) }

// Streams on one connection: a supervisor relays every tunnel of its job over
// one.
const maxStreams = 1024

// streamWorkers are goroutines that take one request after another. A new
// goroutine has to grow its stack for each; a request that finds no worker free
// gets a new goroutine.
const streamWorkers = 16

// maxHeaderBytes bounds the headers of a request.
const maxHeaderBytes = 64 << 10

// idleLimit is after how long a connection without requests is closed; gRPC's
// clients silently connect again.
const idleLimit = 10 * time.Minute

// proposeLimit bounds the wait for a commit when the caller set no deadline.
const proposeLimit = 30 * time.Second

// maxPassedOn is how many streams another controller may have on a connection:
// all that its own clients and nodes have. Each of those is bounded itself.
const maxPassedOn = 1 << 17

// GRPC makes the gRPC server around the handlers, for any number of
// listeners.
func (s *Server) GRPC(creds credentials.TransportCredentials) *grpc.Server {
	return s.serverWith(creds, maxStreams, grpc.ChainUnaryInterceptor(s.noteUnary, s.recoverUnary, s.forwardUnary, s.auditUnary), grpc.ChainStreamInterceptor(s.noteStream, s.dropUnread, s.forwardStream, s.auditStream))
}

// connectionBuffer is what each connection reads into. Thousands of nodes each have one all
// the time, and what they say is short; a larger message is read in several pieces.
const connectionBuffer = 4 << 10

// LinkGRPC makes the gRPC server for the other controllers.
func (s *Server) LinkGRPC() *grpc.Server {
	server := s.serverWith(LinkCredentials(), maxPassedOn, grpc.ChainUnaryInterceptor(s.noteUnary, s.answeredUnary, s.recoverUnary, s.auditUnary), grpc.ChainStreamInterceptor(s.noteStream, s.answeredStream, s.dropUnread, s.auditStream))
	pb.RegisterPeerLinkServer(server, s.links)
	return server
}

func (s *Server) serverWith(creds credentials.TransportCredentials, streams uint32, interceptors ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(interceptors,
		grpc.Creds(creds),
		grpc.ForceServerCodecV2(partsCodec{}),
		grpc.MaxRecvMsgSize(spec.MaxMessageBytes),
		grpc.MaxSendMsgSize(spec.MaxMessageBytes),
		grpc.MaxConcurrentStreams(streams),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.InTapHandle(s.admit),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.ReadBufferSize(connectionBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleLimit, Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)...)
	pb.RegisterControllerServer(server, s.users)
	pb.RegisterNodeLinkServer(server, s.nodes)
	return server
}
