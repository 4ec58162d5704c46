package noded

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// maxOutgoing bounds the messages that wait to be sent. A session that is
	// further behind is ended; the next one tells everything again.
	maxOutgoing = 2*maxAllocs + 64
	// maxTunnels bounds the tunnels that are being made at once.
	maxTunnels = 256
	// Bounds of the interval at which a lease is renewed.
	leastRenewal = 50 * time.Millisecond
	mostRenewal  = 5 * time.Minute
)

var (
	errInventoryChanged = errors.New("what the node offers has changed")
	errBehind           = errors.New("the controller does not take messages as fast as they come")
	errUnreached        = errors.New("the controller does not answer: it hangs, or is cut off")
	errUnregistered     = errors.New("the controller did not answer the registration")
	errTooManyFetches   = errors.New("this node copies too many images at once: ask again")
	errNotRenewed       = errors.New("the controller stopped renewing the lease")
)

// session is one connection to one controller.
type session struct {
	target    string
	inventory *pb.Inventory // as registered; guarded by agent.mu
	outgoing  chan *pb.NodeMessage
	tunnels   *semaphore.Weighted
	end       context.CancelCauseFunc
	leaseMS   uint32             // of the last answer; guarded by agent.mu
	lengths   chan time.Duration // of leases, when they change
	opened    time.Duration      // CLOCK_BOOTTIME of its registration
	answered  atomic.Int64       // CLOCK_BOOTTIME of the last sign of a lease, ns
}

// post queues a message, or ends the session when too many wait.
func (s *session) post(m *pb.NodeMessage) {
	select {
	case s.outgoing <- m:
	default:
		s.end(errBehind)
	}
}

func (s *session) renewed() { s.answered.Store(int64(boottime.Now())) }

// hold opens a session with one controller and keeps it until something ends
// it. It returns the answer to the registration, nil where there was none, and
// why the session ended. What the session starts lives as long as ctx.
func (a *agent) hold(ctx context.Context, target string) (registered *pb.Registered, err error) {
	inventory, err := a.machine.inventory()
	if err != nil {
		a.log.Error("cannot list the GPUs: this node offers none until it can, see whether nvidia-smi works", "error", err)
	}
	connection, err := dial.Dial([]string{target}, a.machine.config.TLSDir)
	if err != nil {
		return nil, err
	}
	defer connection.Close()

	sessionCtx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s := &session{
		target: target, outgoing: make(chan *pb.NodeMessage, maxOutgoing),
		tunnels: semaphore.NewWeighted(maxTunnels), lengths: make(chan time.Duration, 1), end: end, opened: boottime.Now(),
	}
	tooLate := time.AfterFunc(connectDeadline, func() { end(errUnreached) })
	defer tooLate.Stop()
	// The stream hangs on the group, so that whoever fails first ends all.
	group, groupCtx := errgroup.WithContext(sessionCtx)
	stream, err := pb.NewNodeLinkClient(connection).Session(groupCtx)
	if err != nil {
		return nil, causeOf(sessionCtx, err)
	}
	tooLate.Stop()
	tooLate = time.AfterFunc(registerDeadline, func() { end(errUnregistered) })
	a.register(s, inventory)
	defer a.unregister(s)

	group.Go(func() error { return sendAll(groupCtx, s, stream) })
	group.Go(func() error {
		answer, err := receiveRegistered(stream)
		if err != nil {
			return err
		}
		tooLate.Stop()
		registered = answer
		a.log.Info("registered", "controller", target, "cluster", answer.ClusterName, "lease_ms", answer.LeaseMs)
		s.renewed()
		a.leaseRenewed(s, &pb.LeaseRenewed{
			SentBoottimeNs: answer.SentBoottimeNs, LeaseMs: answer.LeaseMs, LeaseMarginMs: answer.LeaseMarginMs, Allocs: answer.Allocs,
		})
		group.Go(func() error { return a.keepLease(groupCtx, s, answer) })
		for {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			a.obey(ctx, s, m)
		}
	})
	err = group.Wait()
	return registered, causeOf(sessionCtx, err)
}

func sendAll(ctx context.Context, s *session, stream pb.NodeLink_SessionClient) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-s.outgoing:
			if err := stream.Send(m); err != nil {
				return err
			}
		}
	}
}

func receiveRegistered(stream pb.NodeLink_SessionClient) (*pb.Registered, error) {
	m, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	answer := m.GetRegistered()
	if answer == nil {
		return nil, fmt.Errorf("the first message of the controller is %T, want Registered", m.What)
	}
	return answer, nil
}

// keepLease asks for the lease again and again, and ends the session when the
// controller no longer answers: another one may.
func (a *agent) keepLease(ctx context.Context, s *session, r *pb.Registered) error {
	interval := boundRenewal(time.Duration(r.RenewEveryMs) * time.Millisecond)
	patience := max(patienceOf(time.Duration(r.LeaseMs)*time.Millisecond), leastRenewal)
	renewal, look := time.NewTicker(interval), time.NewTicker(patience/4)
	defer renewal.Stop()
	defer look.Stop()
	var asked int64 // when the first renewal was sent that nothing has answered
	ask := func() {
		now := int64(boottime.Now())
		if s.answered.Load() >= asked {
			asked = now
		}
		load := hostLoad() // reads files: not under the lock
		a.mu.Lock()
		defer a.mu.Unlock()
		s.post(a.registry.Renewal(timeNow(), load))
	}
	for ask(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-renewal.C:
			ask()
		case length := <-s.lengths: // another policy is in force
			patience = max(patienceOf(length), leastRenewal)
			renewal.Reset(boundRenewal(length / renewalsALease))
			look.Reset(patience / 4)
		case <-look.C:
			if silent := time.Duration(int64(boottime.Now()) - asked); s.answered.Load() < asked && silent > patience {
				return fmt.Errorf("%w %v ago", errNotRenewed, silent.Round(time.Millisecond))
			}
		}
	}
}

// renewalsALease is how often a lease is renewed before it ends, if the
// controller only says its length.
const renewalsALease = 3

func boundRenewal(interval time.Duration) time.Duration {
	return min(max(interval, leastRenewal), mostRenewal)
}

// causeOf prefers the reason that ended ctx to the error that followed.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// userMessage is an error's text without gRPC's wrapping.
func userMessage(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}
