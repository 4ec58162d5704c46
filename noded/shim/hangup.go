package shim

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// A job cannot be saved while something outside is connected to it: one end of
// the connection would stay behind. What connects it with its own supervisor is
// closed before it is stopped, and open again before it goes on. Calls of its
// commands that are cut off, or refused meanwhile, are repeated by them.

// maxQuestions bounds the questions to process 1 that are under way.
const maxQuestions = 64

// byePatience is how long the programs of the job get to close their ends.
const byePatience = 2 * time.Second

// notNowError is what is in the way of a save, and may pass.
type notNowError struct{ text string }

func (e *notNowError) Error() string { return e.text }

// door is the job's socket, as long as it is served.
type door struct {
	listener net.Listener
	server   *grpc.Server
	leaving  atomic.Bool    // whoever closes a connection waits for the other end
	open     sync.WaitGroup // connections that are being closed so
}

// close closes the door and, with patience, sees the job's programs close their
// ends too.
func (d *door) close(patience time.Duration) {
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

// leavingConn is a connection of a door.
type leavingConn struct {
	net.Conn
	door *door
	once sync.Once
}

// Close implements net.Conn. While the job is to be saved the other end is told
// first, and followed.
func (c *leavingConn) Close() error {
	c.once.Do(func() {
		end, ok := c.Conn.(interface{ CloseWrite() error })
		if !ok || !c.door.leaving.Load() || end.CloseWrite() != nil {
			c.Conn.Close()
			return
		}
		_ = c.Conn.SetReadDeadline(time.Now().Add(byePatience))
		c.door.open.Go(func() {
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

// hangUp closes what connects the job with its supervisor, until answerAgain.
func (p *part) hangUp(ctx context.Context) error {
	p.lines.mu.Lock()
	lines := len(p.lines.open)
	p.lines.mu.Unlock()
	if lines > 0 {
		return &notNowError{fmt.Sprintf("%d connections from outside reach into the job, such as an attached session: it can be saved when they are closed", lines)}
	}
	limited, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	if err := p.questions.Acquire(limited, maxQuestions); err != nil {
		return &notNowError{"process 1 of the job does not answer what it was asked: see whether it was stopped"}
	}
	p.mu.Lock()
	p.hungUp = true
	door := p.door
	p.door = nil
	p.mu.Unlock()
	if door != nil {
		door.close(byePatience)
	}
	return nil
}

// answerAgain undoes hangUp. Without that it does nothing.
func (p *part) answerAgain() error {
	p.mu.Lock()
	hungUp := p.hungUp
	p.mu.Unlock()
	if !hungUp {
		return nil
	}
	if err := p.serveJob(); err != nil {
		return fmt.Errorf("open the job's socket again: its commands cannot reach a controller: %w", err)
	}
	p.mu.Lock()
	p.hungUp = false
	p.mu.Unlock()
	p.questions.Release(maxQuestions)
	return nil
}
