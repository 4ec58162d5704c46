package step

import (
	"bytes"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

func messages() []Message {
	return []Message{
		&Steps{}, &StepList{Steps: []Record{{Step: 7, Name: "a", Tasks: 1}}}, &StartBatch{}, &OK{}, &Done{},
		&Launch{
			Step: 3, Argv: Strings{"a b", "\xff\x00x"}, Env: Strings{"K=\xe9"}, Cwd: "/tmp/\xfe", Umask: 0o22,
			Tasks: []Task{{Rank: 4, Local: 0, Env: Strings{"X=1"}}, {Rank: 5, Local: 1, Env: Strings{}}},
			Input: InputTask, InputTask: 4,
		},
		&Started{Tasks: []StartedTask{{Rank: 4, Pid: 17}}},
		&Output{Rank: 1 << 31, Stream: Stderr, Data: []byte("out\x00")},
		&Output{Rank: 1, Stream: Stdout, Data: []byte{}},
		&Input{Rank: 2, All: true, Data: []byte("in")},
		&InputEnd{Rank: 2, All: true}, &InputCredit{Bytes: 12},
		&Signal{Signal: 10, Scope: ScopeStep, Step: 2},
		&Exited{Rank: 9, Code: 0, Signal: 15}, &Failed{Text: "no", Code: 2},
		&Open{Name: "a", Client: "b", Window: &Window{Rows: 24, Columns: 80}, Argv: Strings{"sh"}, Env: Strings{"K=\xe9"}, Cwd: "/tmp", Umask: 0o22},
		&Attach{Step: 4, Name: "a", Client: "b", Output: new(uint64)}, &Attached{Step: 4, Name: "a", Terminal: true, Output: 1 << 40, Input: 3, Written: 2},
		&Resize{Window: Window{Rows: 1, Columns: 2}}, &Taken{Output: 9, Ended: true}, &Written{Input: 5},
		&Hold{Name: "a", ClientS: 120}, &Sessions{}, &SessionList{Sessions: []SessionInfo{{Step: 1, Command: "sh", Attached: true}}},
	}
}

func TestRoundTrip(t *testing.T) {
	var stream bytes.Buffer
	for _, m := range messages() {
		if err := Write(&stream, m); err != nil {
			t.Fatalf("%T: %v", m, err)
		}
	}
	reader := NewReader(&stream)
	for _, want := range messages() {
		got, err := reader.Read()
		if err != nil {
			t.Fatalf("%T: %v", want, err)
		}
		if l, ok := got.(*Launch); ok && l.Tasks[1].Env == nil {
			l.Tasks[1].Env = Strings{}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
	}
	if _, err := reader.Read(); err != io.EOF {
		t.Errorf("at the end: %v, want EOF", err)
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		frame string
		want  error
	}{
		"unknown kind":      {"\x63\x00\x00\x00\x02{}", ErrMalformed},
		"long control":      {"\x02\x7f\x00\x00\x00", ErrTooLong},
		"long data":         {"\x12\x00\x10\x00\x00", ErrTooLong},
		"cut in payload":    {"\x13\x00\x00\x00\x10{}", io.ErrUnexpectedEOF},
		"cut in header":     {"\x13\x00", io.ErrUnexpectedEOF},
		"no output header":  {"\x12\x00\x00\x00\x01a", ErrMalformed},
		"unknown stream":    {"\x12\x00\x00\x00\x05\x00\x00\x00\x00\x09", ErrMalformed},
		"not JSON":          {"\x13\x00\x00\x00\x01{", ErrMalformed},
		"no program":        {frame(2, `{"tasks":[{"rank":0}],"input":"none"}`), ErrMalformed},
		"no tasks":          {frame(2, `{"argv":["YQ=="],"input":"none"}`), ErrMalformed},
		"a task twice":      {frame(2, `{"argv":["YQ=="],"input":"none","tasks":[{"rank":1},{"rank":1}]}`), ErrMalformed},
		"unknown input":     {frame(2, `{"argv":["YQ=="],"input":"x","tasks":[{"rank":1}]}`), ErrMalformed},
		"session, no name":  {frame(7, `{"client":"b"}`), ErrMalformed},
		"no client":         {frame(8, `{"step":1}`), ErrMalformed},
		"more than came":    {frame(24, `{"input":1,"written":2}`), ErrMalformed},
		"signal 0":          {frame(5, `{"signal":0,"scope":"all"}`), ErrMalformed},
		"signal to nowhere": {frame(5, `{"signal":9,"scope":"host"}`), ErrMalformed},
	} {
		if _, err := NewReader(strings.NewReader(c.frame)).Read(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := Write(io.Discard, &Output{Stream: Stdout, Data: make([]byte, MaxDataBytes+1)}); !errors.Is(err, ErrTooLong) {
		t.Errorf("too much output: %v", err)
	}
}

func frame(kind byte, payload string) string {
	return string([]byte{kind, 0, 0, byte(len(payload) >> 8), byte(len(payload))}) + payload
}

// A server that gives no credit: the client stops at the window, a signal
// still gets through, and closing wakes the sender.
func TestInputWindow(t *testing.T) {
	server, conn := net.Pipe()
	client := NewClient(conn)
	defer server.Close()
	got := make(chan Message, 100)
	go func() {
		defer close(got)
		for r := NewReader(server); ; {
			m, err := r.Read()
			if err != nil {
				return
			}
			got <- m
		}
	}()
	if err := client.Launch(&Launch{Argv: Strings{"cat"}, Tasks: []Task{{}}, Input: InputAll}); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() { sent <- client.SendInput(0, true, make([]byte, InputWindow+1)) }()
	total := 0
	for total < InputWindow {
		if m, ok := (<-got).(*Input); ok {
			total += len(m.Data)
		}
	}
	if err := client.Signal(15, ScopeStep, 0); err != nil {
		t.Fatal(err)
	}
	if m, ok := (<-got).(*Signal); !ok {
		t.Fatalf("got %T, want the signal", m)
	}
	select {
	case err := <-sent:
		t.Fatalf("sent more than the window: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestAsk(t *testing.T) {
	server, conn := net.Pipe()
	client := NewClient(conn)
	defer client.Close()
	go func() {
		r := NewReader(server)
		for _, answer := range []Message{&PortNumber{Port: 5}, &OK{}, &Failed{Text: "no such step"}} {
			if _, err := r.Read(); err != nil {
				return
			}
			if Write(server, answer) != nil {
				return
			}
		}
		server.Close()
	}()
	if n, err := client.Port(); n != 5 || err != nil {
		t.Errorf("Port: %d, %v", n, err)
	}
	if err := client.StartBatch(); err != nil {
		t.Errorf("StartBatch: %v", err)
	}
	if err := client.Signal(9, ScopeStep, 1); err == nil || err.Error() != "no such step" {
		t.Errorf("Signal: %v", err)
	}
	if err := client.StartBatch(); err == nil {
		t.Error("no error from a closed connection")
	}
}

func FuzzRead(f *testing.F) {
	for _, m := range messages() {
		b, err := Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x02\x00\x7f\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		for {
			m, err := r.Read()
			if err != nil {
				return
			}
			again, err := Marshal(m)
			if err != nil {
				t.Fatalf("%#v was read but cannot be written: %v", m, err)
			}
			same, err := NewReader(bytes.NewReader(again)).Read()
			if err != nil {
				t.Fatalf("%#v was written but cannot be read: %v", m, err)
			}
			if twice, err := Marshal(same); err != nil || !bytes.Equal(twice, again) {
				t.Fatalf("%#v is read again as %#v: %v", m, same, err)
			}
		}
	})
}
