package step

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// remote says what the input holds, whatever it is told.
type remote struct{ io.Reader }

func (remote) Write(p []byte) (int, error) { return len(p), nil }
func (remote) Close() error                { return nil }

// FuzzClient: whatever the other end says, questions get an answer or an
// error, Next passes on only what belongs to a running step, and no credit
// opens the window wider than it was.
func FuzzClient(f *testing.F) {
	for _, m := range messages() {
		b, err := Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		for question := range byte(4) {
			f.Add(question, append(b, b...))
		}
	}
	f.Fuzz(func(t *testing.T, question byte, said []byte) {
		c := NewClient(remote{bytes.NewReader(said)})
		defer c.Close()
		switch question % 4 {
		case 0:
			_, _ = c.Port()
		case 1:
			_ = c.StartBatch()
		case 2:
			_ = c.Signal(9, ScopeAll, 0)
		}
		if err := c.Launch(&Launch{Argv: Strings{"x"}, Tasks: []Task{{}}, Input: InputAll}); err != nil {
			t.Fatal(err)
		}
		for {
			m, err := c.Next()
			if err != nil {
				if m != nil || !errors.Is(err, ErrClosed) && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLong) && !errors.Is(err, ErrUnexpected) {
					t.Fatalf("%v, %v", m, err)
				}
				break
			}
			switch m := m.(type) {
			case *Started, *Output, *Failed, *Done:
			case *Exited:
				if m.Code < 0 || m.Code > 255 || m.Signal < 0 || m.Signal > 64 {
					t.Fatalf("%+v", m)
				}
			default:
				t.Fatalf("%T is no news of a step", m)
			}
			if c.window > InputWindow || c.window < 0 {
				t.Fatalf("a window of %d bytes", c.window)
			}
		}
		if err := c.SendInput(0, true, []byte("x")); !errors.Is(err, ErrClosed) {
			t.Fatalf("input to a connection that has ended: %v", err)
		}
	})
}
