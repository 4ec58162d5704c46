package step

import (
	"fmt"
	"io"
	"sync"
)

// A session is a step of one task that lives without its client: process 1
// keeps what nobody has read yet, and whoever attaches resumes from there, over
// another connection, on another node if the job was moved. So both directions
// are counted from the first byte on: a client says how much of the output it
// has, and is told how much of its input has come.
//
// A connection asks with Open or Attach; the answer is Attached or Failed, then
// come Output and Written, and at last Exited, or Failed when another client has
// attached. The client sends Input, InputEnd, Resize, Taken and Signal. Closing the connection leaves the session
// as it is.

const (
	// SessionWindow is how many bytes of output are kept, and may be on their
	// way to a client.
	SessionWindow = 256 << 10
	// MaxSessionName bounds names of sessions and clients, which are UUIDs.
	MaxSessionName = 64
	// MaxSessions is how many sessions one process 1 has, with those that have
	// ended and whose end nobody has heard of.
	MaxSessions = 64
)

// Window is the size of a terminal, in characters.
type Window struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// How gcp asks for the job's end of a copy, as a session without a terminal:
//
//	Init CopyWord CopySend|CopyReceive [CopyTree] PATH
//
// What goes over it is package filecopy's.
const (
	Init        = "/run/gleaner/ginit" // process 1's program, as every job has it
	CopyWord    = "copy"
	CopySend    = "send"
	CopyReceive = "receive"
	CopyTree    = "-r"
)

// Open begins a session, or attaches to the one of this name: it may be asked
// for again when no answer came.
type Open struct {
	Name   string `json:"name"`   // that no other session has, made by the client
	Client string `json:"client"` // likewise: who sends the input
	// Window is the size of the session's terminal; nil = it has pipes.
	Window *Window `json:"window,omitempty"`
	// Argv, Env, Cwd and Umask are as in Launch, but that what the job's own
	// environment says of the job and its user is laid over Env, that no Argv means
	// the user's shell, and no Cwd the directory of the batch script.
	Argv  Strings `json:"argv"`
	Env   Strings `json:"env"`
	Cwd   Bytes   `json:"cwd"`
	Umask uint32  `json:"umask"`
}

// Attach attaches to a session. Another client that it has is told that it is
// not attached any more.
type Attach struct {
	Step   uint32 `json:"step"`
	Name   string `json:"name"` // "" = whatever session has this number
	Client string `json:"client"`
	// Output is how much of the output the client has; nil = as much as any had.
	Output *uint64 `json:"output,omitempty"`
	Window *Window `json:"window,omitempty"`
}

// Attached is the answer to both.
type Attached struct {
	Step     uint32 `json:"step"`
	Name     string `json:"name"`
	Terminal bool   `json:"terminal"`
	// Output is the position of the next byte of output. More than the client
	// has: what is between was not kept. Less: the session is as it was earlier,
	// since its job resumed from an image made then.
	Output uint64 `json:"output"`
	// Input is how much of this client's input has come, and Written how much
	// of that the task has got.
	Input   uint64 `json:"input"`
	Written uint64 `json:"written"`
}

// Resize says that the client's terminal has another size.
type Resize struct {
	Window Window `json:"window"`
}

// Taken says how much of the output the client has in all. Ended: it has heard
// how the session ended, which may be forgotten.
type Taken struct {
	Output uint64 `json:"output"`
	Ended  bool   `json:"ended,omitempty"`
}

// Written says how much of the client's input the task has got in all.
type Written struct {
	Input uint64 `json:"input"`
}

// Sessions asks which sessions there are; the answer is SessionList.
type Sessions struct{}

// Hold waits for a session, which need not have begun. The answer is Exited once it
// is over and its client has heard so, or Failed when nobody was attached to it for
// ClientS seconds in a row, those before it began included.
type Hold struct {
	Name    string `json:"name"`
	ClientS uint32 `json:"client_s"` // at most MaxHoldS
}

// MaxHoldS bounds how long a session is held without a client: a day.
const MaxHoldS = 24 * 60 * 60

// SessionList has them in the order of their numbers.
type SessionList struct {
	Sessions []SessionInfo `json:"sessions"`
}

// SessionInfo is one session.
type SessionInfo struct {
	Step     uint32 `json:"step"`
	Command  Bytes  `json:"command"`
	Terminal bool   `json:"terminal"`
	Attached bool   `json:"attached"`
	Ended    bool   `json:"ended"`
}

func (*Open) kind() Kind        { return KindOpen }
func (*Attach) kind() Kind      { return KindAttach }
func (*Resize) kind() Kind      { return KindResize }
func (*Taken) kind() Kind       { return KindTaken }
func (*Sessions) kind() Kind    { return KindSessions }
func (*Hold) kind() Kind        { return KindHold }
func (*Attached) kind() Kind    { return KindAttached }
func (*Written) kind() Kind     { return KindWritten }
func (*SessionList) kind() Kind { return KindSessionList }

func newSessionControl(kind Kind) Message {
	switch kind {
	case KindOpen:
		return &Open{}
	case KindAttach:
		return &Attach{}
	case KindResize:
		return &Resize{}
	case KindTaken:
		return &Taken{}
	case KindSessions:
		return &Sessions{}
	case KindHold:
		return &Hold{}
	case KindAttached:
		return &Attached{}
	case KindWritten:
		return &Written{}
	case KindSessionList:
		return &SessionList{}
	}
	return nil
}

func checkSession(m Message) error {
	names := func(names ...string) error {
		for _, name := range names {
			if len(name) > MaxSessionName {
				return fmt.Errorf("%w: a name of %d bytes", ErrMalformed, len(name))
			}
		}
		return nil
	}
	switch m := m.(type) {
	case *Open:
		if m.Name == "" || m.Client == "" {
			return fmt.Errorf("%w: a session without a name, or without a client", ErrMalformed)
		}
		if len(m.Argv) > 0 && m.Argv[0] == "" {
			return fmt.Errorf("%w: a session without a program", ErrMalformed)
		}
		return names(m.Name, m.Client)
	case *Hold:
		if m.Name == "" || m.ClientS > MaxHoldS {
			return fmt.Errorf("%w: a session without a name, or held for more than a day", ErrMalformed)
		}
		return names(m.Name)
	case *Attach:
		if m.Client == "" {
			return fmt.Errorf("%w: attached without a client", ErrMalformed)
		}
		return names(m.Name, m.Client)
	case *Attached:
		if m.Written > m.Input {
			return fmt.Errorf("%w: more input was taken than came", ErrMalformed)
		}
		return names(m.Name)
	case *SessionList:
		if len(m.Sessions) > MaxSessions {
			return fmt.Errorf("%w: %d sessions", ErrMalformed, len(m.Sessions))
		}
	}
	return nil
}

// Attachment is a client's connection to a session. One goroutine calls Next,
// others may send.
type Attachment struct {
	conn   io.ReadWriteCloser
	reader *Reader
	write  sync.Mutex // one frame at a time
}

// FailedError is what process 1 answered in place of what was asked for.
type FailedError struct{ Failed }

// Error implements error.
func (e *FailedError) Error() string { return e.Text }

// NewAttachment speaks over conn, which it owns from now on.
func NewAttachment(conn io.ReadWriteCloser) *Attachment {
	return &Attachment{conn: conn, reader: NewReader(conn)}
}

// Begin sends Open or Attach and returns what process 1 said: a *FailedError
// if it refused.
func (a *Attachment) Begin(ask Message) (*Attached, error) {
	answer, err := a.question(ask)
	if err != nil {
		return nil, err
	}
	attached, ok := answer.(*Attached)
	if !ok {
		return nil, fmt.Errorf("%w: %T in place of a session", ErrUnexpected, answer)
	}
	return attached, nil
}

// List asks which sessions there are.
func (a *Attachment) List() ([]SessionInfo, error) {
	answer, err := a.question(&Sessions{})
	if err != nil {
		return nil, err
	}
	list, ok := answer.(*SessionList)
	if !ok {
		return nil, fmt.Errorf("%w: %T in place of the sessions", ErrUnexpected, answer)
	}
	return list.Sessions, nil
}

func (a *Attachment) question(ask Message) (Message, error) {
	if err := checkSession(ask); err != nil {
		return nil, err
	}
	if err := a.Send(ask); err != nil {
		return nil, err
	}
	answer, err := a.reader.Read()
	if err != nil {
		return nil, fmt.Errorf("step protocol: read answer: %w", err)
	}
	if failed, ok := answer.(*Failed); ok {
		return nil, &FailedError{*failed}
	}
	return answer, nil
}

// Send sends one message.
func (a *Attachment) Send(m Message) error {
	a.write.Lock()
	defer a.write.Unlock()
	return Write(a.conn, m)
}

// Next returns the next Output, Written, Exited or Failed. It fails with
// ErrUnexpected for anything else, and as Reader.Read when the connection ends.
func (a *Attachment) Next() (Message, error) {
	m, err := a.reader.Read()
	if err != nil {
		return nil, err
	}
	switch m.(type) {
	case *Output, *Written, *Exited, *Failed:
		return m, nil
	}
	return nil, fmt.Errorf("%w: %T", ErrUnexpected, m)
}

// CloseWrite says that nothing more will be sent, if the connection can.
func (a *Attachment) CloseWrite() error {
	a.write.Lock()
	defer a.write.Unlock()
	if end, ok := a.conn.(interface{ CloseWrite() error }); ok {
		return end.CloseWrite()
	}
	return nil
}

// Close leaves the session as it is.
func (a *Attachment) Close() error { return a.conn.Close() }
