package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	// dialTime is how long a port may take to answer.
	dialTime = 10 * time.Second
	// lonelyTicks of tick without a byte from the user's end, and it has gone. Ticks and not
	// hours: a job that is frozen or waits for its node has none.
	tick        = 10 * time.Second
	lonelyTicks = 60
)

// ErrLonely is returned by Serve when the user's end has gone.
var ErrLonely = errors.New("nobody is at the other end")

// dialer connects to a target; a variable for tests.
var dialer = func(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// Serve is the job's end: it connects to what the other end asks for, until the stream ends.
func Serve(stream io.ReadWriteCloser) error {
	heard := &listener{ReadWriteCloser: stream}
	session, err := yamux.Server(heard, config())
	if err != nil {
		return err
	}
	defer session.Close()
	lonely := make(chan struct{})
	go func() {
		defer close(lonely)
		heard.untilLonely(session.CloseChan())
		session.Close()
	}()
	places := make(chan struct{}, MaxConnections)
	for {
		asked, err := session.AcceptStream()
		if err != nil {
			session.Close()
			<-lonely
			if heard.lonely() {
				return ErrLonely
			}
			return nil // the other end is done
		}
		go func() {
			defer asked.Close()
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
				serveOne(asked)
			default:
				_ = writeLine(asked, &answer{Error: ErrFull.Error()})
			}
		}()
	}
}

// serveOne connects, says whether that worked, and carries the bytes.
func serveOne(asked *yamux.Stream) {
	var to Target
	_ = asked.SetReadDeadline(time.Now().Add(forLong))
	if readLine(asked, &to) != nil || to.Port == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	conn, err := dial(ctx, to)
	if err != nil {
		_ = writeLine(asked, &answer{Error: clip(reason(err))})
		return
	}
	defer conn.Close()
	if writeLine(asked, &answer{}) != nil {
		return
	}
	Join(conn, asked)
}

// dial tries both loopback addresses where no host is named: a program may listen on one.
func dial(ctx context.Context, to Target) (conn net.Conn, err error) {
	hosts := []string{to.Host}
	if to.Host == "" {
		hosts = []string{"127.0.0.1", "::1"}
	}
	var first error
	for _, host := range hosts {
		if conn, err = dialer(ctx, net.JoinHostPort(host, strconv.Itoa(int(to.Port)))); err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// reason is an error of the network without what everybody knows.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

func clip(text string) string {
	const most = 256
	return fmt.Sprintf("%.*s", most, text)
}

// halfCloser is a connection that can be closed in one direction.
type halfCloser interface{ CloseWrite() error }

// Join carries bytes between two connections until both directions are over.
func Join(a, b io.ReadWriteCloser) {
	var both sync.WaitGroup
	carry := func(to, from io.ReadWriteCloser) {
		_, err := io.Copy(to, from)
		half, can := to.(halfCloser)
		if err != nil || !can {
			to.Close() // a stream of the session: its reading goes on
		} else {
			_ = half.CloseWrite()
		}
		if err != nil {
			from.Close()
		}
	}
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
}

// listener notes when the other end was heard of.
type listener struct {
	io.ReadWriteCloser
	heard atomic.Bool
	ticks atomic.Int32
}

func (l *listener) Read(p []byte) (int, error) {
	n, err := l.ReadWriteCloser.Read(p)
	if n > 0 {
		l.heard.Store(true)
	}
	return n, err
}

func (l *listener) lonely() bool { return l.ticks.Load() >= lonelyTicks }

// untilLonely returns when nothing was heard for long, or the session is over.
func (l *listener) untilLonely(over <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for !l.lonely() {
		select {
		case <-over:
			return
		case <-ticker.C:
			if l.heard.Swap(false) {
				l.ticks.Store(0)
			} else {
				l.ticks.Add(1)
			}
		}
	}
}
