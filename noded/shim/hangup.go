package shim

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// linesError is a line that is in the way. The grade says so as long as it is open.
type linesError struct{ text string }

func (e *linesError) Error() string { return e.text }

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

// linesInTheWay says which lines to other nodes keep the part from being saved: one
// end of each is a connection of a program of the job, or of process 1, with the
// supervisor, which cannot be closed without ending what goes over it. nil = none.
func (p *part) linesInTheWay() error {
	in, out := p.lines.joined.Load(), p.lines.opened.Load()
	switch {
	case out > 0:
		return &linesError{fmt.Sprintf("a step that was started here runs on other nodes (grun, %d connections): it can be saved when the step is over, or by itself with --checkpoint=app", out)}
	case in > 0:
		return &linesError{fmt.Sprintf("a step that another of its nodes started runs here (grun, %d connections): it can be saved when the step is over, or by itself with --checkpoint=app", in)}
	}
	return nil
}

// linesChanged has the watchers told what follows for the grade.
func (p *part) linesChanged(count *atomic.Int32, by int32) {
	count.Add(by)
	p.mu.Lock()
	p.notify()
	p.mu.Unlock()
}

// beginLine says whether a step may open a line to another node: not while the
// part is saved, which would cut it off. end undoes it.
func (p *part) beginLine() (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hungUp {
		return nil, status.Error(codes.Unavailable, "the job is being saved: try again")
	}
	p.lines.opened.Add(1)
	p.notify()
	return func() { p.linesChanged(&p.lines.opened, -1) }, nil
}

// hangUp closes what connects the job with its supervisor, until answerAgain.
func (p *part) hangUp(ctx context.Context) error {
	if err := p.linesInTheWay(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	if err := p.questions.Acquire(limited, maxQuestions); err != nil {
		return &notNowError{"process 1 of the job does not answer what it was asked: see whether it was stopped"}
	}
	p.mu.Lock()
	if err := p.linesInTheWay(); err != nil {
		p.mu.Unlock()
		p.questions.Release(maxQuestions)
		return err
	}
	p.hungUp = true
	door := p.door
	p.door = nil
	p.mu.Unlock()
	if door != nil {
		door.close(byePatience)
	}
	if !p.attached.hangUp(byePatience) {
		return &notNowError{"process 1 of the job does not close the connections of attached sessions: see whether it was stopped"}
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
