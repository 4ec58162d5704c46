package dial

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Controllers makes calls to whichever controller serves them. Unlike one
// connection of gRPC's it leaves a controller that answers and is of no use:
// after a call that ended with UNAVAILABLE, because that controller knows no
// leader, or with DEADLINE_EXCEEDED, because it hangs, the next one goes to
// another controller. Calls that are under way stay where they are.
//
// It repeats nothing by itself: the caller knows whether a request may be sent
// again.
type Controllers struct {
	targets []string
	tlsDir  string
	options []grpc.DialOption

	mu      sync.Mutex
	present *link // nil before the first call, and after one was left
	left    int   // how many were left: where among the targets to begin
	closed  bool
}

// link is one connection, and how many calls use it.
type link struct {
	*grpc.ClientConn
	calls int
}

// Open prepares calls to the first of the targets that serves; it contacts
// nobody yet. Targets and tlsDir are as for Dial.
func Open(targets []string, tlsDir string, options ...grpc.DialOption) (*Controllers, error) {
	c := &Controllers{targets: slices.Clone(targets), tlsDir: tlsDir, options: options}
	var err error
	c.present, err = c.dial()
	return c, err
}

// dial makes a connection that tries first the target whose turn it is.
func (c *Controllers) dial() (*link, error) {
	begin := 0
	if len(c.targets) > 0 {
		begin = c.left % len(c.targets)
	}
	connection, err := Dial(slices.Concat(c.targets[begin:], c.targets[:begin]), c.tlsDir, c.options...)
	if err != nil {
		return nil, err
	}
	return &link{ClientConn: connection}, nil
}

// Invoke implements grpc.ClientConnInterface.
func (c *Controllers) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	used, err := c.take()
	if err != nil {
		return err
	}
	err = used.Invoke(ctx, method, request, answer, options...)
	c.release(used, err)
	return err
}

// NewStream implements grpc.ClientConnInterface. As with gRPC's, the stream
// must be read to its end, or its context cancelled.
func (c *Controllers) NewStream(ctx context.Context, about *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	used, err := c.take()
	if err != nil {
		return nil, err
	}
	var once sync.Once
	over := func(err error) { once.Do(func() { c.release(used, err) }) }
	stream, err := used.NewStream(ctx, about, method, append(options, grpc.OnFinish(over))...)
	if err != nil {
		over(err)
	}
	return stream, err
}

func (c *Controllers) take() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, status.Error(codes.Canceled, "the connection to the controllers was closed")
	}
	if c.present == nil {
		var err error
		if c.present, err = c.dial(); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
	}
	c.present.calls++
	return c.present, nil
}

// release ends a call, and leaves the controller if that is what its end
// says. One that was left is hung up on when its last call has ended.
func (c *Controllers) release(used *link, err error) {
	c.mu.Lock()
	used.calls--
	code := status.Code(err)
	if c.present == used && (code == codes.Unavailable || code == codes.DeadlineExceeded) {
		c.present = nil
		c.left++
	}
	over := c.present != used && used.calls == 0
	c.mu.Unlock()
	if over {
		// Not from within a call of the connection itself, which may hold its
		// locks when it says that a stream has ended.
		go func() { _ = used.Close() }()
	}
}

// Leave makes the next call go to another controller than the present one, as
// it does by itself after the failures above.
func (c *Controllers) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := c.present
	if used == nil {
		return
	}
	c.present = nil
	c.left++
	if used.calls == 0 {
		_ = used.Close()
	}
}

// Close ends the connection that is present; calls elsewhere end with their
// contexts.
func (c *Controllers) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	used := c.present
	c.present = nil
	if used == nil {
		return nil
	}
	return used.Close()
}
