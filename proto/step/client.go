package step

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// Client is the side that asks. Questions (Allocate, Signal, StartBatch) come
// before Launch. After Launch one goroutine calls Next until Done, while
// others may send input and signals.
type Client struct {
	conn   io.ReadWriteCloser
	reader *Reader

	write    sync.Mutex // one frame at a time
	launched bool       // guarded by write

	input  sync.Mutex
	room   *sync.Cond // signalled when window grows or closed is set
	window int
	closed bool
}

// NewClient speaks over conn, which it owns from now on.
func NewClient(conn io.ReadWriteCloser) *Client {
	c := &Client{conn: conn, reader: NewReader(conn), window: InputWindow}
	c.room = sync.NewCond(&c.input)
	return c
}

// Short has it take short answers only, at most MaxShortBytes each: OK and Failed, which are
// what Signal and StartBatch are answered with. Whoever asks a process of somebody else's
// gives it no more memory than that.
func (c *Client) Short() { c.reader.control = MaxShortBytes }

// Close ends the connection; tasks that still run are killed.
func (c *Client) Close() error {
	c.shut()
	return c.conn.Close()
}

// Signal delivers a signal. Before Launch it waits for the answer; after
// Launch it only sends.
func (c *Client) Signal(signal uint32, scope Scope, step uint32) error {
	m := &Signal{Signal: signal, Scope: scope, Step: step}
	c.write.Lock()
	launched := c.launched
	c.write.Unlock()
	if launched {
		return c.send(m)
	}
	return c.askOK(m)
}

// Hold waits until a session is over: see Hold.
func (c *Client) Hold(name string, clientS uint32) (*Exited, error) {
	answer, err := c.ask(&Hold{Name: name, ClientS: clientS})
	if err != nil {
		return nil, err
	}
	ended, ok := answer.(*Exited)
	if !ok {
		return nil, fmt.Errorf("%w: %T in place of the end of a session", ErrUnexpected, answer)
	}
	return ended, nil
}

// StartBatch lets the batch script start.
func (c *Client) StartBatch() error { return c.askOK(&StartBatch{}) }

// Launch starts the tasks. The answer arrives through Next.
func (c *Client) Launch(l *Launch) error {
	if err := checkLaunch(l); err != nil {
		return err
	}
	c.write.Lock()
	c.launched = true
	c.write.Unlock()
	return c.send(l)
}

// SendInput sends data to one task, or to all tasks of this node. It blocks
// while the window is full; Next must be running meanwhile.
func (c *Client) SendInput(rank uint32, all bool, data []byte) error {
	for len(data) > 0 {
		n, err := c.take(min(len(data), MaxDataBytes))
		if err != nil {
			return err
		}
		if err := c.send(&Input{Rank: rank, All: all, Data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// EndInput closes the standard input of one task, or of all.
func (c *Client) EndInput(rank uint32, all bool) error {
	return c.send(&InputEnd{Rank: rank, All: all})
}

// Next returns the next Started, Output, Exited, Failed or Done of the step.
// It fails with ErrClosed when the connection ends before Done.
func (c *Client) Next() (Message, error) {
	for {
		m, err := c.reader.Read()
		if err != nil {
			c.shut()
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, ErrClosed
			}
			return nil, err
		}
		switch m := m.(type) {
		case *InputCredit:
			c.give(int(m.Bytes))
		case *Started, *Output, *Exited, *Failed, *Fence:
			return m, nil
		case *Done:
			c.shut()
			return m, nil
		default:
			c.shut()
			return nil, fmt.Errorf("%w: %T", ErrUnexpected, m)
		}
	}
}

func (c *Client) askOK(m Message) error {
	answer, err := c.ask(m)
	if err != nil {
		return err
	}
	if _, ok := answer.(*OK); !ok {
		return fmt.Errorf("%w: %T in place of an acknowledgement", ErrUnexpected, answer)
	}
	return nil
}

// ask sends a question and reads its answer; a Failed becomes an error.
func (c *Client) ask(m Message) (Message, error) {
	if err := c.send(m); err != nil {
		return nil, err
	}
	answer, err := c.reader.Read()
	if err != nil {
		return nil, fmt.Errorf("step protocol: read answer: %w", err)
	}
	if failed, ok := answer.(*Failed); ok {
		return nil, errors.New(failed.Text)
	}
	return answer, nil
}

func (c *Client) send(m Message) error {
	c.write.Lock()
	defer c.write.Unlock()
	return Write(c.conn, m)
}

// take waits for room and takes up to n bytes of it.
func (c *Client) take(n int) (int, error) {
	c.input.Lock()
	defer c.input.Unlock()
	for c.window == 0 && !c.closed {
		c.room.Wait()
	}
	if c.closed {
		return 0, ErrClosed
	}
	n = min(n, c.window)
	c.window -= n
	return n, nil
}

func (c *Client) give(n int) {
	c.input.Lock()
	c.window = min(c.window+n, InputWindow)
	c.input.Unlock()
	c.room.Broadcast()
}

func (c *Client) shut() {
	c.input.Lock()
	c.closed = true
	c.input.Unlock()
	c.room.Broadcast()
}
