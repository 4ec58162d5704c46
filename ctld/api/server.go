// Package api answers requests: who are you, is it valid, stamp time and id,
// propose, reply. One file per request.
//
// Contract: nothing is accepted that is not carried out; what is not
// supported is refused by name, with what to type instead. A reply to a
// change is sent after the change is on a majority of the controllers' disks.
// Who asks is the kernel's or a certificate's word, never the request's.
// Reading takes a View, which costs nothing and holds up nobody. Every list
// is streamed in pieces, every wait has a deadline, and a handler that panics
// costs its own request only.
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

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Cluster is what the handlers need of the replicated state.
type Cluster interface {
	View() *state.View
	// Remembered answers a request that was carried out before.
	Remembered(id state.RequestID, kind state.Kind) (state.Result, bool)
	Propose(ctx context.Context, command state.Command, id state.RequestID) (state.Result, error)
	// Follow delivers changes after those in the View it answers. The channel
	// is closed when the reader is too slow; stop ends the delivery.
	Follow() (changes <-chan Change, view *state.View, stop func())
	IsLeader() bool
	Leader() string
	Name() string
	Term() uint64
	AppliedIndex() uint64
	// Confirm returns nil when a majority has said, after it was called, that
	// this controller leads.
	Confirm(ctx context.Context) error
	// Over is closed when the reign ends in which this controller leads now.
	Over() <-chan struct{}
	CommitIndex() uint64
	// LastContact is how long ago the leader was heard of; less than 0 = never.
	LastContact() time.Duration
	// Members are the names of the controllers.
	Members() []string
	// Replace puts another state in the place of the present one, that which
	// the file holds, and answers it as it then is. The file is written over.
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
	// OverlaySaved adds whether a running job can be saved, and why one that was
	// saved can go on nowhere.
	OverlaySaved(job *state.Job, overlay *state.Overlay)
	Sessions() *session.Registry
	Leading() bool
	// OpenTerm has the log say that this leader's term has begun; it must be
	// said before a lease is granted. It returns at once when it was.
	OpenTerm(ctx context.Context) error
	// Fencing says how it stands with a silent node, "" when there is nothing.
	Fencing(node string) string
	Ready(ctx context.Context, s *session.Session, ready *pb.PartReady) error
	Ended(ctx context.Context, s *session.Session, ended *pb.PartEnded) error
	Suspended(ctx context.Context, s *session.Session, said *pb.PartSuspended) error
	Saved(ctx context.Context, s *session.Session, saved *pb.PartSaved) error
	Graded(s *session.Session, grade *pb.PartGrade)
	Restores(s *session.Session, answer *pb.RestoreAnswer)
}

// Options say what the handlers tell of the controller.
type Options struct {
	Version  string
	HostName string
	Settings map[string]string // shown by ShowConfig, beside the policy
	Logger   *slog.Logger
	// UnreadLimit is how long a client may leave an answer unread. 0 =
	// DefaultUnreadLimit.
	UnreadLimit time.Duration
	// Peers are the other controllers; nil where none can be reached.
	Peers Peers
	Level uint32 // the newest feature level this controller understands
	// SpoolDirectory is where a snapshot lies while it comes; "" = the
	// system's.
	SpoolDirectory string
	// Problems are those of this controller that Status tells; nil = none.
	Problems func() []string
}

// Server answers all requests of users and nodes.
type Server struct {
	pb.UnimplementedControllerServer
	pb.UnimplementedNodeLinkServer
	pb.UnimplementedPeerLinkServer

	cluster   Cluster
	loops     Loops
	peers     Peers
	options   Options
	log       *slog.Logger
	tunnels   *tunnels
	machines  machines
	followers followers
	places    places
	metrics   *metrics
	restoring sync.Mutex
	stop      chan struct{} // closed when the controller is about to stop
}

// NewServer makes the handlers.
func NewServer(cluster Cluster, loops Loops, options Options) *Server {
	if options.UnreadLimit == 0 {
		options.UnreadLimit = DefaultUnreadLimit
	}
	return &Server{cluster: cluster, loops: loops, peers: options.Peers, options: options, log: options.Logger, tunnels: newTunnels(), metrics: newMetrics(), stop: make(chan struct{})}
}

// Stop makes the streams that never end by themselves end. Call it once.
func (s *Server) Stop() { close(s.stop) }

// Streams on one connection: a supervisor relays every tunnel of its job over
// one.
const maxStreams = 1024

// streamWorkers are goroutines that take one request after another. A new one
// has to grow its stack for each; what finds no worker free gets one of its
// own all the same.
const streamWorkers = 16

// maxHeaderBytes bounds what a request says before its message.
const maxHeaderBytes = 64 << 10

// idleLimit is after how long a connection without requests is closed; gRPC's
// clients connect again without a word.
const idleLimit = 10 * time.Minute

// proposeLimit bounds the wait for a commit when the caller set no deadline.
const proposeLimit = 30 * time.Second

// maxPassedOn is how many streams another controller may have on a connection:
// all that its own clients and nodes have, each of whom has bounds.
const maxPassedOn = 1 << 17

// GRPC makes the gRPC server around the handlers, for any number of
// listeners.
func (s *Server) GRPC(creds credentials.TransportCredentials) *grpc.Server {
	return s.serverWith(creds, maxStreams, grpc.ChainUnaryInterceptor(s.noteUnary, s.recoverUnary, s.forwardUnary), grpc.ChainStreamInterceptor(s.noteStream, s.dropUnread, s.forwardStream))
}

// LinkGRPC makes the gRPC server for the other controllers.
func (s *Server) LinkGRPC() *grpc.Server {
	server := s.serverWith(LinkCredentials(), maxPassedOn, grpc.ChainUnaryInterceptor(s.noteUnary, s.answeredUnary, s.recoverUnary), grpc.ChainStreamInterceptor(s.noteStream, s.answeredStream, s.dropUnread))
	pb.RegisterPeerLinkServer(server, s)
	return server
}

func (s *Server) serverWith(creds credentials.TransportCredentials, streams uint32, interceptors ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(interceptors,
		grpc.Creds(creds),
		grpc.MaxRecvMsgSize(spec.MaxMessageBytes),
		grpc.MaxSendMsgSize(spec.MaxMessageBytes),
		grpc.MaxConcurrentStreams(streams),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.InTapHandle(s.places.admit),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleLimit, Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)...)
	pb.RegisterControllerServer(server, s)
	pb.RegisterNodeLinkServer(server, s)
	return server
}
