package ctld

import (
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxConnections bounds the open connections of one listener: every node of the
// largest cluster, with a supervisor for each of many jobs. Where the system
// allows fewer descriptors it is a third of those, so that two listeners leave
// enough for the log.
const maxConnections = 65536

// bound makes a listener close connections over the bound at once: if they
// waited, they would keep out later ones.
func bound(listener net.Listener) net.Listener {
	limit := int64(maxConnections)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		limit = min(limit, int64(min(files.Cur, 1<<30))/3)
	}
	return &boundListener{Listener: listener, limit: limit}
}

type boundListener struct {
	net.Listener
	limit int64
	open  atomic.Int64
}

func (b *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= b.limit {
			return &boundConn{Conn: conn, done: sync.OnceFunc(func() { b.open.Add(-1) })}, nil
		}
		b.open.Add(-1)
		_ = conn.Close()
	}
}

type boundConn struct {
	net.Conn
	done func()
}

func (b *boundConn) Close() error {
	b.done()
	return b.Conn.Close()
}

// NetConn is the connection itself, for questions to the kernel.
func (b *boundConn) NetConn() net.Conn { return b.Conn }
