package pid1

import (
	"net"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// grants shares the job out to its steps. It is all in this process's memory, so it is
// saved, and resumes, with the job.
type grants struct {
	mu      sync.Mutex
	book    *grant.Book
	tickets uint64
	waiting map[uint64]*claim
}

// claim is a connection that has, or waits for, a step's part.
type claim struct {
	ticket uint64
	conn   net.Conn
}

func (g *grants) init(job grant.Job) {
	g.book, g.waiting = grant.NewBook(job), map[uint64]*claim{}
}

// number is one for a step that holds nothing of the job's.
func (g *grants) number() uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.book.Number()
}

// ask answers a request on its connection; nil = the step can never start.
func (g *grants) ask(conn net.Conn, ask *step.Allocate) *claim {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tickets++
	c := &claim{ticket: g.tickets, conn: conn}
	granted, err := g.book.Ask(c.ticket, &ask.Request)
	switch {
	case err != nil:
		_ = step.Write(conn, &step.Failed{Text: err.Error(), Code: 1})
		return nil
	case granted == nil:
		g.waiting[c.ticket] = c
		c.say(&step.Waits{})
	default:
		c.say(&step.Granted{Grant: *granted})
	}
	return c
}

// leave gives back what a connection has, and tells those that waited for it.
func (g *grants) leave(c *claim) {
	if c == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waiting, c.ticket)
	for _, next := range g.book.Leave(c.ticket) {
		if waiter := g.waiting[next.Ticket]; waiter != nil {
			delete(g.waiting, next.Ticket)
			waiter.say(&step.Granted{Grant: *next.Grant})
		}
	}
}

// answerTime is how long a client may leave an answer unread; its connection holds
// more than one answer.
const answerTime = 5 * time.Second

// say answers. A client that does not hear it finds its connection closed, and has
// nothing then.
func (c *claim) say(m step.Message) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(answerTime))
	if step.Write(c.conn, m) != nil {
		c.conn.Close()
	}
	_ = c.conn.SetWriteDeadline(time.Time{})
}
