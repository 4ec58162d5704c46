package relay

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
)

// userListener lets only one user in, and bounds this user's connections: they cost
// memory and descriptors that are not the job's.
type userListener struct {
	*net.UnixListener
	uid         uint32
	jobListener *jobListener
	places      chan struct{}
}

func newUserListener(l *net.UnixListener, uid uint32, d *jobListener) userListener {
	return userListener{l, uid, d, make(chan struct{}, maxConnections)}
}

// Accept implements net.Listener.
func (l userListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.UnixListener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, err := socket.PeerUID(conn); err == nil && uid == l.uid {
			select {
			case l.places <- struct{}{}:
				return &countedConn{Conn: &leavingConn{Conn: conn, jobListener: l.jobListener}, leave: sync.OnceFunc(func() { <-l.places })}, nil
			default:
			}
		}
		conn.Close()
	}
}

// countedConn gives its place back when it is closed.
type countedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// jobListener is the job's socket, as long as it is served.
type jobListener struct {
	listener net.Listener
	server   *grpc.Server
	leaving  atomic.Bool    // closing a connection waits for the other end
	open     sync.WaitGroup // connections that are being closed so
}

// close closes the socket and, with patience, sees the job's programs close their
// ends too.
func (d *jobListener) close(patience time.Duration) {
	d.leaving.Store(patience > 0)
	d.listener.Close()
	d.server.Stop()
	gone := make(chan struct{})
	go func() { d.open.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(patience):
	}
}

// leavingConn is a connection to the job's socket.
type leavingConn struct {
	net.Conn
	jobListener *jobListener
	once        sync.Once
}

// Close implements net.Conn. Before a save, it first tells the other end and waits until
// that has closed.
func (c *leavingConn) Close() error {
	c.once.Do(func() {
		end, ok := c.Conn.(interface{ CloseWrite() error })
		if !ok || !c.jobListener.leaving.Load() || end.CloseWrite() != nil {
			c.Conn.Close()
			return
		}
		_ = c.Conn.SetReadDeadline(time.Now().Add(byePatience))
		c.jobListener.open.Go(func() {
			defer c.Conn.Close()
			for buffer := make([]byte, 4096); ; {
				if _, err := c.Conn.Read(buffer); err != nil {
					return
				}
			}
		})
	})
	return nil
}
