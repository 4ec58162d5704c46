package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// RefusedError is why the job's end did not connect.
type RefusedError struct{ Why string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Why }

// Client is the user's end.
type Client struct {
	session *yamux.Session
	places  chan struct{}
	once    sync.Once
	over    chan struct{}
}

// NewClient begins to speak over a stream, which it owns from now on.
func NewClient(stream io.ReadWriteCloser) (*Client, error) {
	session, err := yamux.Client(stream, config())
	if err != nil {
		return nil, err
	}
	c := &Client{session: session, places: make(chan struct{}, MaxConnections), over: make(chan struct{})}
	go c.ping()
	return c, nil
}

// ping says from time to time that somebody is here.
func (c *Client) ping() {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.over:
			return
		case <-c.session.CloseChan():
			return
		case <-ticker.C:
			_, _ = c.session.Ping() // the answer may come when the job is back
		}
	}
}

// Ready returns when the job's end has answered, or fails when there will be no answer.
func (c *Client) Ready() error {
	_, err := c.session.Ping()
	return err
}

// Close ends all connections.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.over) })
	return c.session.Close()
}

// Carry joins a connection with a target inside the job, until it is over. A *RefusedError
// says that the job's end did not connect; ErrFull that nobody was asked.
func (c *Client) Carry(conn net.Conn, to Target) error {
	defer conn.Close()
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	default:
		return fmt.Errorf("%w: at most %d", ErrFull, MaxConnections)
	}
	stream, err := c.session.OpenStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	var said answer
	if err = writeLine(stream, &to); err == nil {
		err = readLine(stream, &said)
	}
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case said.Error != "":
		return &RefusedError{said.Error}
	}
	Join(conn, stream)
	return nil
}
