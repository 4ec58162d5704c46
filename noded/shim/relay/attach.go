package relay

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Clients attach to sessions from outside the job: their bytes pass unchanged between
// a tunnel and process 1. Process 1 knows and keeps the sessions: a client that is
// cut off attaches again. So nothing is kept here, and a save disconnects all of them.

// maxAttached bounds the clients that are attached at once: each holds two
// connections and two goroutines.
const maxAttached = 64

// attachTable holds the clients that are attached. The zero value has none.
type attachTable struct {
	mu   sync.Mutex
	open map[*attachedClient]bool
	shut bool // nobody attaches: see HangUp
}

// attachedClient is one client. conn is its connection to process 1.
type attachedClient struct {
	conn   localEnd
	cancel context.CancelFunc // ends the tunnel
	gone   chan struct{}      // closed when nothing of it is left
}

// leave makes process 1 close its end. What process 1 sends until then is dropped, and
// sent again when the client is back.
func (c *attachedClient) leave() {
	c.cancel()
	_ = c.conn.CloseWrite() // if the other end has gone, nobody reads that
}

func (t *attachTable) add(c *attachedClient) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= maxAttached {
		return status.Errorf(codes.ResourceExhausted, "%d clients are attached to this job already", maxAttached)
	}
	if t.open == nil {
		t.open = make(map[*attachedClient]bool)
	}
	t.open[c] = true
	return nil
}

func (t *attachTable) remove(c *attachedClient) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
	close(c.gone)
}

// hangUp makes all clients leave, and says whether they have left within patience.
func (t *attachTable) hangUp(patience time.Duration) bool {
	t.mu.Lock()
	clients := make([]*attachedClient, 0, len(t.open))
	for c := range t.open {
		clients = append(clients, c)
	}
	t.mu.Unlock()
	for _, c := range clients {
		c.leave()
	}
	late := time.After(patience)
	for _, c := range clients {
		select {
		case <-c.gone:
		case <-late:
			return false
		}
	}
	return true
}

// HangUp makes all clients leave a job that is about to be parked, and lets nobody attach
// until Admit: a frozen program cannot close a connection, and with one the job could not
// be saved. The clients say that the job is suspended, and attach again when it runs, here
// or elsewhere. It waits no longer than patience, because the owner of the node does.
func (r *Relay) HangUp(patience time.Duration) {
	end := time.Now().Add(patience)
	r.attached.close(true)
	// Those that are just being joined have a question under way.
	ctx, cancel := context.WithDeadline(r.context, end)
	defer cancel()
	if r.questions.Acquire(ctx, maxQuestions) == nil {
		r.questions.Release(maxQuestions)
	}
	r.attached.hangUp(time.Until(end))
}

// Admit ends HangUp.
func (r *Relay) Admit() { r.attached.close(false) }

func (t *attachTable) close(shut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shut = shut
}

func (t *attachTable) isShut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shut
}

// joinSession joins the tunnel of a client with process 1. It returns when both
// are open; the bytes flow after that. It refuses while the job is being saved or parked.
func (r *Relay) joinSession(ctx context.Context, request *pb.Connect) error {
	if !r.questions.TryAcquire(1) {
		return status.Error(codes.Unavailable, "the job is being saved")
	}
	defer r.questions.Release(1)
	if r.attached.isShut() {
		return status.Error(codes.Unavailable, "the job is parked, because the owner of its node has taken that back: it goes on when the node is lent again, or elsewhere")
	}
	conn, err := r.dialInit(ctx)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	end, ok := conn.(localEnd)
	if !ok {
		conn.Close()
		return status.Errorf(codes.Internal, "process 1 is reached by %T", conn)
	}
	tunnelContext, cancel := context.WithCancel(r.context)
	c := &attachedClient{conn: end, cancel: cancel, gone: make(chan struct{})}
	if err := r.attached.add(c); err != nil {
		cancel()
		conn.Close()
		return err
	}
	stream, closeTunnel, err := r.joinTunnel(tunnelContext, request)
	if err != nil {
		cancel()
		conn.Close()
		r.attached.remove(c)
		return err
	}
	go func() {
		if request.GetMeasured() != nil {
			// That it cannot be sent is noticed with the first data.
			_ = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Measured{Measured: request.GetMeasured()}})
		}
		c.carry(stream)
		cancel()
		closeTunnel()
		conn.Close()
		r.attached.remove(c)
	}()
	return nil
}

// carry passes bytes on until process 1 has closed its end, which it does when
// the client is gone.
func (c *attachedClient) carry(stream grpc.BidiStreamingClient[pb.TunnelMessage, pb.TunnelMessage]) {
	var down sync.WaitGroup
	down.Go(func() {
		defer func() { _ = c.conn.CloseWrite() }()
		for {
			message, err := stream.Recv()
			if err != nil || message.GetHalfClose() {
				return
			}
			if _, err := c.conn.Write(message.GetData()); err != nil {
				return
			}
		}
	})
	buffer := make([]byte, tunnelBytes)
	heard := true
	for {
		n, err := c.conn.Read(buffer)
		if n > 0 && heard {
			heard = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: append([]byte(nil), buffer[:n]...)}}) == nil
		}
		if err != nil {
			break
		}
	}
	if heard {
		_ = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}}) // its last word
		_ = stream.CloseSend()
	}
	// The other end closes too; the wait for it has an end.
	late := time.AfterFunc(lastWordPatience, c.cancel)
	defer late.Stop()
	down.Wait()
}

// lastWordPatience is how long the controller has to take the last word.
const lastWordPatience = 5 * time.Second
