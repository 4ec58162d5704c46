package session

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// screen is the user's terminal, while a session's takes its place. A nil one
// is none.
type screen struct {
	fd    int
	state *term.State // as it was; nil = as it is
	once  sync.Once
}

// Size of a session's terminal when the user has none.
const (
	defaultRows    = 24
	defaultColumns = 80
)

// terminalOf returns the terminal that a stream is; nil = it is none.
func terminalOf(stream any) *screen {
	file, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &screen{fd: int(file.Fd())}
}

// takeScreen has the user's terminal pass on what is typed as it is.
func takeScreen(stdin io.Reader, stdout io.Writer) (*screen, error) {
	s := terminalOf(stdin)
	if s == nil {
		return terminalOf(stdout), nil
	}
	var err error
	s.state, err = term.MakeRaw(s.fd)
	return s, err
}

// restore leaves the terminal as it was.
func (s *screen) restore() {
	if s == nil || s.state == nil {
		return
	}
	s.once.Do(func() { _ = term.Restore(s.fd, s.state) })
}

// size is that of the terminal.
func (s *screen) size() *step.Window {
	window := &step.Window{Rows: defaultRows, Columns: defaultColumns}
	if s == nil {
		return window
	}
	if columns, rows, err := term.GetSize(s.fd); err == nil && columns > 0 && rows > 0 {
		window.Rows, window.Columns = uint16(min(rows, 1<<16-1)), uint16(min(columns, 1<<16-1))
	}
	return window
}

// resized tells of changes of the size, until ctx ends.
func (s *screen) resized(ctx context.Context) <-chan os.Signal {
	if s == nil {
		return nil
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	context.AfterFunc(ctx, func() { signal.Stop(changes) })
	return changes
}
