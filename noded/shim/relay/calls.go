package relay

import (
	"errors"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Names of the metadata by which the supervisor vouches for who calls. A
// controller believes them from a node only, for a job that runs there.
const (
	jobKey  = "gleaner-job" // "JOB.EPOCH"
	uidKey  = "gleaner-uid"
	nodeKey = "gleaner-node"
)

const (
	controllerPrefix = "/gleaner.v1.Controller/"
	// maxCalls bounds the calls of one job that run at once: each may hold two small
	// messages (spec.MaxPieceBytes) of what the job sends, in memory that is not the job's.
	maxCalls = 64
	// heldAnswers bounds the bytes of answers that the job has not read yet, of lists and of
	// other answers each: one of the largest, and one that comes.
	heldAnswers = 2 * spec.MaxMessageBytes
	// Tunnels that are open at once: every step has one to each other node.
	// Few where there is no other node.
	tunnelsPerNode, fewTunnels, maxTunnels = 128, 4, 1024
	// maxConnections bounds the connections to the job's socket.
	maxConnections = 256
	// streamsPerNode is how many tunnels to each other node a connection may have: a command
	// has one. What goes beyond waits in the command. A call that is over and whose end nobody
	// reads still has its place there.
	streamsPerNode = 4
	// What a connection, and a stream in it, may have sent unread.
	connectionWindow = 256 << 10
	callWindow       = 64 << 10
	// controllerWindow is what a controller may have sent unread, in each call and tunnel.
	controllerWindow = 256 << 10
	// What each connection reads and writes into, and its headers may have.
	connectionBuffer = 4 << 10
	maxHeaderBytes   = 4 << 10
	// A caller that gives up after waiting so long for a first word will ask
	// again. Then the relay asks another controller, because this one may hang.
	unheardAfter = time.Second
	// leastPause is how often a client may ask whether the relay is there.
	leastPause = 5 * time.Second
)

// answerPatience is how long an answer waits until others have been read.
var answerPatience = 10 * time.Second

// Serve listens on the job's socket, for the job's user only.
func (r *Relay) Serve() error {
	listener, err := socket.Listen(r.Dir.Path(bundle.RunDir, bundle.JobSocket), int(r.UID), int(r.GID))
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(passon.Codec{}),
		grpc.UnknownServiceHandler(r.handle),
		grpc.MaxRecvMsgSize(spec.MaxPieceBytes),
		grpc.MaxSendMsgSize(spec.MaxMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ReadBufferSize(connectionBuffer),
		grpc.SharedWriteBuffer(true),
		grpc.MaxConcurrentStreams(uint32(maxCalls+min(streamsPerNode*max(len(r.Order.Allocation), 1), cap(r.tunnels)))),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.InitialWindowSize(callWindow),
		// A step of which nothing is heard asks every ten seconds whether this is there
		// (proto/dial); without this it would be cut off for asking.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPause, PermitWithoutStream: true}),
	)
	d := &jobListener{listener: listener, server: server}
	r.mu.Lock()
	r.listener = d
	r.mu.Unlock()
	go func() {
		err := server.Serve(newUserListener(listener, r.UID, d))
		if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, grpc.ErrServerStopped) {
			r.Log.Error("the job's socket failed: its commands cannot reach a controller", "error", err)
		}
		server.Stop()
	}()
	return nil
}

// handle relays one call of any kind.
func (r *Relay) handle(_ any, incoming grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(incoming)
	isTunnel := method == pb.NodeLink_Tunnel_FullMethodName
	if !ok || !isTunnel && !strings.HasPrefix(method, controllerPrefix) {
		return status.Errorf(codes.Unimplemented, "%s cannot be called from inside a job", method)
	}
	places := r.calls
	if isTunnel {
		places = r.tunnels
	}
	release, err := take(places)
	if err != nil {
		return err
	}
	defer release()
	if isTunnel {
		target, err := targetOf(incoming)
		if err != nil {
			return err
		}
		return r.openStream(incoming, r.nodeKnownAs(target))
	}
	conn, err := r.controller()
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	begun := time.Now()
	answered, err := passon.Stream(r.vouch(incoming.Context()), conn, method, incoming, passon.Room{Budget: &r.answers, Patience: answerPatience})
	if !answered && incoming.Context().Err() != nil && time.Since(begun) > unheardAfter {
		conn.Leave()
	}
	return err
}

// targetOf reads the first message of a tunnel, and believes only its target:
// a job can open tunnels only between its own nodes.
func targetOf(incoming grpc.ServerStream) (string, error) {
	raw := new(passon.Message)
	if err := incoming.RecvMsg(raw); err != nil {
		return "", err
	}
	first := new(pb.TunnelMessage)
	if err := proto.Unmarshal(raw.Bytes(), first); err != nil {
		return "", status.Errorf(codes.InvalidArgument, "malformed tunnel: %v", err)
	}
	target := first.GetOpen().GetTargetNode()
	if target == "" {
		return "", status.Error(codes.InvalidArgument, "a tunnel's first message must name its target node")
	}
	return target, nil
}

// nodeKnownAs is the node that the job's programs mean by a name: they know the
// nodes on which the job began, wherever it resumes.
func (r *Relay) nodeKnownAs(name string) string {
	for i, known := range r.Order.KnownAs {
		if known == name && i < len(r.Order.Allocation) {
			return r.Order.Allocation[i].Node
		}
	}
	return name
}
