package pid1

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// attachment is one client of a session.
type attachment struct {
	conn  net.Conn
	turn  uint32 // this client's number in the queue of input
	next  uint64 // position of the output to send
	told  uint64 // how much of the input it knows to be written
	hello *step.Attached

	// Guarded by session.mu.
	gone     bool // it is no longer attached
	replaced bool // because another client is
}

// sessions are those whose end nobody has heard yet.
type sessions struct {
	mu     sync.Mutex
	begun  []*session // in the order of their numbers
	heard  []*session // those last whose end was heard, for who holds the job for one
	opened sync.Mutex // one Open at a time, so that a name is used once
}

func (t *sessions) find(is func(*session) bool) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.IndexFunc(t.begun, is); at >= 0 {
		return t.begun[at]
	}
	return nil
}

// room makes room by forgetting the oldest that has ended.
func (t *sessions) room() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.begun) < step.MaxSessions {
		return nil
	}
	at := slices.IndexFunc(t.begun, func(s *session) bool { info := s.info(); return info.Ended && !info.Attached })
	if at < 0 {
		return errTooManySessions
	}
	t.begun = slices.Delete(t.begun, at, at+1)
	return nil
}

func (t *sessions) add(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = append(t.begun, s)
}

func (t *sessions) forget(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = slices.DeleteFunc(t.begun, func(known *session) bool { return known == s })
	t.heard = append(t.heard, s)
	if len(t.heard) > step.MaxSessions {
		t.heard = slices.Delete(t.heard, 0, 1)
	}
}

func (t *sessions) list() *step.SessionList {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := &step.SessionList{Sessions: []step.SessionInfo{}}
	for _, s := range t.begun {
		list.Sessions = append(list.Sessions, s.info())
	}
	return list
}

// openSession begins a session, or finds the one that it began before.
func (p *process1) openSession(open *step.Open) (*session, error) {
	if p.config.Batch == nil {
		return nil, fmt.Errorf("this node does not run the batch script: sessions are on the one that does")
	}
	p.sessions.opened.Lock()
	defer p.sessions.opened.Unlock()
	if s := p.sessions.find(func(s *session) bool { return s.name == open.Name }); s != nil {
		return s, nil
	}
	if err := p.sessions.room(); err != nil {
		return nil, err
	}
	s, err := p.startSession(open)
	if err != nil {
		return nil, err
	}
	p.sessions.add(s)
	p.steps.add(s)
	go func() {
		s.mu.Lock()
		for !s.closed {
			s.wake.Wait()
		}
		s.mu.Unlock()
		p.steps.remove(s)
	}()
	return s, nil
}

// runSession serves one client of a session, until it leaves or another comes.
func (p *process1) runSession(conn net.Conn, reader *step.Reader, ask step.Message) {
	attach, s, err := p.sessionFor(ask)
	if err != nil {
		_ = step.Write(conn, failure(err))
		return
	}
	a := s.attach(conn, attach)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.tell(a)
	}()
	ended := s.hear(p, a, reader)
	s.detach(a)
	if ended {
		p.sessions.forget(s)
	}
	conn.Close() // wakes tell, which may be writing
	<-done
}

func (p *process1) sessionFor(ask step.Message) (*step.Attach, *session, error) {
	switch ask := ask.(type) {
	case *step.Open:
		s, err := p.openSession(ask)
		if err != nil {
			return nil, nil, err
		}
		none := uint64(0)
		return &step.Attach{Step: s.number, Client: ask.Client, Output: &none, Window: ask.Window}, s, nil
	case *step.Attach:
		s := p.sessions.find(func(s *session) bool { return s.number == ask.Step && (ask.Name == "" || s.name == ask.Name) })
		if s == nil {
			return nil, nil, fmt.Errorf("step %d is no session, or has ended", ask.Step)
		}
		return ask, s, nil
	}
	return nil, nil, fmt.Errorf("a %T begins no session", ask)
}

// attach makes a client the one that is attached, and answers it.
func (s *session) attach(conn net.Conn, ask *step.Attach) *attachment {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil {
		s.now.replaced = true
		s.leave(s.now)
	}
	if s.client != ask.Client {
		s.client, s.came, s.written, s.inputEnded = ask.Client, 0, 0, false
		s.clientTurn++
		s.input.forget()
	}
	next := s.kept.begin
	if ask.Output != nil {
		// What it has need not be sent again. It cannot have more than was written,
		// unless the job resumed from an earlier image that has not written it yet.
		next = min(max(*ask.Output, s.kept.begin), s.kept.end())
		s.kept.drop(next)
	}
	a := &attachment{conn: conn, turn: s.clientTurn, next: next, told: s.written, hello: &step.Attached{
		Step: s.number, Name: s.name, Terminal: s.tty != nil, Output: next, Input: s.came, Written: s.written,
	}}
	s.now = a
	s.wake.Broadcast()
	if s.tty != nil && ask.Window != nil {
		_ = s.tty.resize(*ask.Window)
		s.tty.redraw()
	}
	return a
}

// leave ends what tell does for a client. The caller holds s.mu.
func (s *session) leave(a *attachment) {
	a.gone = true
	if s.now == a {
		s.now = nil
	}
	s.wake.Broadcast()
}

func (s *session) detach(a *attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(a)
}

// tell sends a client what there is, until it leaves or the session ends.
func (s *session) tell(a *attachment) {
	for message := step.Message(a.hello); message != nil; message = s.nextWord(a) {
		_ = a.conn.SetWriteDeadline(time.Now().Add(clientPatience))
		err := step.Write(a.conn, message)
		if _, last := message.(*step.Exited); err == nil && last {
			return // what it says to that is heard
		}
		if _, last := message.(*step.Failed); err != nil || last {
			a.conn.Close()
			return
		}
	}
}

// clientPatience is how long a client may read nothing. The supervisor ends the
// connection of a client that has gone.
const clientPatience = 10 * time.Minute

// nextWord waits until there is something to say; nil: nobody listens.
func (s *session) nextWord(a *attachment) step.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case a.replaced:
			return &step.Failed{Text: "another client has attached to this session", Code: int(unix.EBUSY)}
		case a.gone:
			return nil
		case a.told < s.written:
			a.told = s.written
			return &step.Written{Input: a.told}
		}
		if stream, data := s.kept.from(a.next); data != nil {
			a.next += uint64(len(data))
			return &step.Output{Stream: stream, Data: data}
		}
		if s.closed {
			return s.exited
		}
		s.wake.Wait()
	}
}

// hear takes what a client says until it leaves; ended: it has heard how the
// session ended.
func (s *session) hear(p *process1, a *attachment, reader *step.Reader) (ended bool) {
	for {
		m, err := reader.Read()
		if err != nil {
			return false
		}
		switch m := m.(type) {
		case *step.Input:
			if !s.takeInput(a, inputItem{rank: a.turn, data: m.Data}) {
				return false // more than its window, or no longer attached
			}
		case *step.InputEnd:
			if !s.takeInput(a, inputItem{rank: a.turn, end: true}) {
				return false
			}
		case *step.Resize:
			if s.tty != nil {
				_ = s.tty.resize(m.Window)
			}
		case *step.Taken:
			if s.taken(a, m) {
				return true
			}
		case *step.Signal:
			m.Scope, m.Step = step.ScopeStep, s.number
			p.signal(m)
		default:
			return false
		}
	}
}

func (s *session) takeInput(a *attachment, item inputItem) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if item.end && s.inputEnded && !a.gone {
		return true // it said so over another connection
	}
	if a.gone || !s.input.push(item) {
		return false
	}
	s.inputEnded = s.inputEnded || item.end
	s.came += uint64(len(item.data))
	return true
}

// taken forgets output that the client has.
func (s *session) taken(a *attachment, m *step.Taken) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.gone {
		return false
	}
	s.kept.drop(min(m.Output, a.next))
	s.wake.Broadcast()
	return m.Ended && s.closed
}
