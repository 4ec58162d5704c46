// Package relay carries the bytes of one allocation between its job and the
// world outside: calls of the job's commands to a controller, step streams
// between the job's nodes, clients that attach to sessions, and the supervisor's
// own questions to process 1.
//
// What a job sends is passed on without looking into it, in the job's name and in
// no other: the metadata of a call and the ends of a tunnel are the relay's own.
// Connections, calls and tunnels are bounded, because what they hold is not the
// job's memory. A step stream outlives the tunnel that carries it.
//
// A job cannot be saved while something outside is connected to it. Disconnect
// closes what it can close without ending a program's connection for good, and
// otherwise refuses; nothing connects until Reconnect.
package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	"github.com/gleaner-hpc/gleaner/proto/budget"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Config says whose bytes are relayed.
type Config struct {
	Order    *pb.StartAlloc
	Dir      bundle.Dir
	Settings *bundle.Settings // where the controllers are
	UID, GID uint32           // of the job's user
	InitUIDs []uint32         // as whom process 1 may answer
	Log      *slog.Logger
	// Changed is called when OpenStreams may have another answer.
	Changed func()
	// Packets carries the packets of the job's network that come from the allocation with
	// that index and go there, until the tunnel breaks; nil = there is no such network.
	Packets func(ctx context.Context, index int, tunnel PacketTunnel)
}

// Relay is the relay of one allocation. Its methods may be called from several
// goroutines.
type Relay struct {
	Config
	calls   chan struct{} // one for each that runs
	tunnels chan struct{}
	answers budget.Budget // to calls, as long as the job has not read them
	context context.Context
	cancel  context.CancelFunc
	// questions are the questions to process 1 that are under way. While none is allowed,
	// all places are taken.
	questions *semaphore.Weighted
	attached  attachTable
	streams   streamTable

	mu           sync.Mutex
	conn         *dial.Controllers
	listener     *jobListener // nil while the job's socket is not served
	disconnected bool
	// How many step streams are open: those that other nodes opened, and those that
	// steps opened here.
	joined, opened int
}

// New makes the relay. It listens when Serve is called.
func New(config Config) *Relay {
	tunnels := max(min(tunnelsPerNode*(len(config.Order.Allocation)-1), maxTunnels), fewTunnels)
	r := &Relay{
		Config: config, questions: semaphore.NewWeighted(maxQuestions),
		calls: make(chan struct{}, maxCalls), tunnels: make(chan struct{}, tunnels),
		answers: budget.Budget{Each: heldAnswers, All: 2 * heldAnswers},
	}
	r.context, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends all that is open.
func (r *Relay) Close() {
	r.mu.Lock()
	listener := r.listener
	r.listener = nil
	r.mu.Unlock()
	if listener != nil {
		listener.close(0)
	}
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		r.conn.Close()
	}
}

// controller answers the connection to the controllers, made at first use.
func (r *Relay) controller() (*dial.Controllers, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil {
		conn, err := dial.Open(r.Settings.Controllers, r.Settings.TLSDir, dial.Window(controllerWindow)...)
		if err != nil {
			return nil, err
		}
		r.conn = conn
	}
	return r.conn, nil
}

// take gets a place among the calls or the tunnels.
func take(places chan struct{}) (release func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, status.Errorf(codes.ResourceExhausted, "this job has %d calls or tunnels open here already: wait for some to end", cap(places))
	}
}

// vouch answers the metadata of a call to a controller; nothing that the
// caller sent is passed on.
func (r *Relay) vouch(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Pairs(
		jobKey, bundle.ID(r.Order.Alloc),
		uidKey, strconv.FormatUint(uint64(r.UID), 10),
		nodeKey, r.Order.Node))
}

// OpenTunnel opens a tunnel of this allocation. It ends with ctx.
func (r *Relay) OpenTunnel(ctx context.Context, open *pb.TunnelOpen) (grpc.BidiStreamingClient[pb.TunnelMessage, pb.TunnelMessage], error) {
	conn, err := r.controller()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return r.openTunnel(ctx, conn, open)
}

// openTunnel opens a tunnel over a connection. If sending fails, the stream says
// why.
func (r *Relay) openTunnel(ctx context.Context, conn grpc.ClientConnInterface, open *pb.TunnelOpen) (grpc.BidiStreamingClient[pb.TunnelMessage, pb.TunnelMessage], error) {
	open.Alloc, open.FromNode = r.Order.Alloc, r.Order.Node
	stream, err := pb.NewNodeLinkClient(conn).Tunnel(r.vouch(ctx), grpc.ForceCodecV2(passon.Codec{}))
	if err != nil {
		return nil, err
	}
	return stream, stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: open}})
}

// dialInit connects to process 1 of the job.
func (r *Relay) dialInit(ctx context.Context) (net.Conn, error) {
	conn, err := socket.DialJob(ctx, r.Dir.Path(bundle.RunDir, pid1.StepSocket), r.InitUIDs...)
	if err != nil {
		return nil, fmt.Errorf("reach process 1 of the job: %w", err)
	}
	return conn, nil
}

// AskInit puts one question to process 1.
func (r *Relay) AskInit(ctx context.Context, ask func(*step.Client) error) error {
	if err := r.questions.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("process 1 of the job is not asked while the job is being saved, or is busy: try again: %w", err)
	}
	defer r.questions.Release(1)
	conn, err := r.dialInit(ctx)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	client := step.NewClient(conn)
	client.Short() // the job's user can put another program in the place of process 1
	defer client.Close()
	return ask(client)
}
