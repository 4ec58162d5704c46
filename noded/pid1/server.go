package pid1

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

const (
	// maxConnections bounds the open connections: every running step has one.
	maxConnections = 2 * grant.MaxWaiting
	// questionTimeout is how long a connection may be silent before Launch.
	questionTimeout = time.Minute
)

func (p *process1) listen() error {
	path := filepath.Join(p.dir, StepSocket)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove the former socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen for steps: %w", err)
	}
	p.listener = listener
	return os.Chmod(path, 0o600)
}

func (p *process1) serve() {
	slots := make(chan struct{}, maxConnections)
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed at the end of the job
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = step.Write(conn, &step.Failed{Text: "too many connections to this node's process 1", Code: 1})
			conn.Close()
			continue
		}
		go func() {
			defer func() { <-slots }()
			defer conn.Close()
			p.handle(conn)
		}()
	}
}

// handle answers questions until there are no more, or runs a step.
func (p *process1) handle(conn net.Conn) {
	reader := step.NewReader(conn)
	var asked *claim
	var held []int // ports
	defer func() { p.ports.leave(held) }()
	defer func() { p.grants.leave(asked) }()
	for {
		if asked == nil { // else it says nothing while the step waits, or runs elsewhere
			_ = conn.SetReadDeadline(time.Now().Add(questionTimeout))
		}
		m, err := reader.Read()
		if err != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Time{})
		switch m := m.(type) {
		case *step.Launch:
			p.runStep(conn, reader, m, func() { p.grants.leave(asked) })
			return
		case *step.Open, *step.Attach:
			p.runSession(conn, reader, m)
			return
		case *step.Release:
			p.grants.leave(asked)
			asked = nil
		case *step.Allocate:
			if asked == nil && p.config.Batch != nil {
				asked = p.grants.ask(conn, m)
				continue
			}
		}
		_ = conn.SetWriteDeadline(time.Now().Add(questionTimeout))
		answer := p.answer(m)
		if _, is := m.(*step.Port); is {
			answer = p.givePort(&held)
		}
		if step.Write(conn, answer) != nil {
			return
		}
		_ = conn.SetWriteDeadline(time.Time{})
	}
}

func (p *process1) answer(m step.Message) step.Message {
	switch m := m.(type) {
	case *step.StartBatch:
		if p.config.Batch == nil {
			return &step.Failed{Text: "this node does not run the batch script", Code: 1}
		}
		p.startBatch()
		return &step.OK{}
	case *step.Release:
		return &step.OK{}
	case *step.Allocate:
		return &step.Failed{Text: "steps are allocated by the node that runs the batch script, each over a connection of its own", Code: 1}
	case *step.Steps:
		return p.listSteps()
	case *step.Sessions:
		return p.sessions.list()
	case *step.Hold:
		return p.hold(m)
	case *step.Signal:
		if !p.signal(m) {
			return &step.Failed{Text: step.NobodyToSignal, Code: 1}
		}
		return &step.OK{}
	}
	return &step.Failed{Text: fmt.Sprintf("a %T cannot be asked for here", m), Code: 1}
}

// signal answers whether there was anybody to signal.
func (p *process1) signal(m *step.Signal) bool {
	sig := unix.Signal(m.Signal)
	switch m.Scope {
	case step.ScopeBatch:
		return p.batch.signal(sig)
	case step.ScopeSteps:
		return p.steps.signal(sig, nil)
	case step.ScopeStep:
		return p.steps.signal(sig, &m.Step)
	}
	batch := p.batch.signalGroup(sig)
	return p.steps.signal(sig, nil) || batch
}

// running is a step, as far as it runs here.
type running interface {
	id() uint32
	// signal is false when nothing of it runs any longer.
	signal(unix.Signal) bool
	// use is what is recorded of it, and the tasks that run; none = it is over.
	use() (step.Record, []runningTask)
}

// steps are the steps that run on this node.
type steps struct {
	mu      sync.Mutex
	running map[running]bool
}

func (s *steps) add(r running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[r] = true
}

func (s *steps) remove(r running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, r)
}

// signal signals the tasks of one step, or of all if number is nil.
func (s *steps) signal(sig unix.Signal, number *uint32) bool {
	s.mu.Lock()
	var runs []running
	for r := range s.running {
		if number == nil || r.id() == *number {
			runs = append(runs, r)
		}
	}
	s.mu.Unlock()
	reached := false
	for _, r := range runs {
		reached = r.signal(sig) || reached
	}
	return reached
}
