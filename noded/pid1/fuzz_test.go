package pid1

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// said is a connection whose other end says what the input holds.
type said struct {
	net.Conn
	bytes.Reader
	answers bytes.Buffer
}

func (s *said) Read(p []byte) (int, error)       { return s.Reader.Read(p) }
func (s *said) Write(p []byte) (int, error)      { return s.answers.Write(p) }
func (*said) Close() error                       { return nil }
func (*said) SetReadDeadline(time.Time) error    { return nil }
func (*said) SetWriteDeadline(t time.Time) error { return nil }

func newSaid(data []byte) *said {
	s := &said{}
	s.Reader.Reset(data)
	return s
}

func frames(t testing.TB, messages ...step.Message) []byte {
	var all bytes.Buffer
	for _, m := range messages {
		if err := step.Write(&all, m); err != nil {
			t.Fatal(err)
		}
	}
	return all.Bytes()
}

// withoutLaunches is what a client says up to its first launch or session, which would
// start programs.
func withoutLaunches(data []byte) []byte {
	for at := 0; at < len(data); {
		reader := bytes.NewReader(data[at:])
		m, err := step.NewReader(reader).Read()
		switch m.(type) {
		case *step.Launch, *step.Open, *step.Attach:
			return data[:at]
		}
		if err == nil && len(data)-at < 5 {
			return data[:at]
		}
		if err != nil {
			return data
		}
		length := int(data[at+1])<<24 | int(data[at+2])<<16 | int(data[at+3])<<8 | int(data[at+4])
		at += 5 + length
	}
	return data
}

// FuzzQuestions: whatever a process of the job, or another node, asks process 1
// before a launch, each question is answered once, in the protocol's words.
func FuzzQuestions(f *testing.F) {
	f.Add(frames(f, &step.Steps{}, &step.StartBatch{}, &step.Signal{Signal: 64, Scope: step.ScopeAll}, &step.Signal{Signal: 9, Scope: step.ScopeStep, Step: 1}), true)
	f.Add(frames(f, &step.OK{}, &step.Done{}, &step.Started{}, &step.Input{Rank: 1 << 31, All: true, Data: []byte("x")}, &step.InputEnd{}, &step.InputCredit{Bytes: 1 << 31}, &step.Sessions{}, &step.Taken{}), false)
	f.Add(frames(f, &step.Allocate{Request: grant.Request{Tasks: 1}}, &step.Allocate{}, &step.Port{}), true)
	f.Add(frames(f, &step.Allocate{Request: grant.Request{Tasks: 3}}, &step.Allocate{Request: grant.Request{Exact: true}}), true)
	f.Add([]byte("\x02\xff\xff\xff\xff"), true)
	f.Add([]byte("\x01\x00\x00\x00\x02{}\x63"), true)
	f.Fuzz(func(t *testing.T, data []byte, batch bool) {
		p := &process1{config: &Config{}, reaper: newReaper(), batchDone: make(chan int, 1)}
		p.steps.running = map[running]bool{}
		p.grants.init(grant.Job{Nodes: []grant.Node{{Name: "n1", CPUs: 2}}})
		if batch {
			p.config.Batch = &Batch{}
			p.batch.asked = true // it runs already
		}
		data = withoutLaunches(data)
		conn := newSaid(data)
		p.handle(conn)
		questions, answers := step.NewReader(bytes.NewReader(data)), step.NewReader(&conn.answers)
		for {
			question, err := questions.Read()
			if err != nil {
				break
			}
			answer, err := answers.Read()
			if err != nil {
				t.Fatalf("%#v is not answered: %v", question, err)
			}
			switch answer.(type) {
			case *step.OK, *step.Failed, *step.SessionList, *step.StepList, *step.Granted, *step.Waits, *step.PortNumber:
			default:
				t.Fatalf("%#v is answered by %#v", question, answer)
			}
		}
		if answer, err := answers.Read(); err == nil {
			t.Fatalf("%#v answers nothing", answer)
		}
	})
}

// FuzzInput: whatever a client says after its launch, what is kept of it is
// bounded, and the step comes to its end.
func FuzzInput(f *testing.F) {
	f.Add(frames(f, &step.Input{Rank: 1, Data: []byte("x")}, &step.InputEnd{Rank: 1}, &step.Input{All: true, Data: []byte("y")}, &step.Signal{Signal: 9, Scope: step.ScopeSteps}))
	f.Add(bytes.Repeat(frames(f, &step.InputEnd{All: true}), 100))
	f.Add(frames(f, &step.Input{All: true, Data: make([]byte, 100)}, &step.Input{Data: make([]byte, 100)}))
	f.Add(frames(f, &step.Port{}))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &process1{config: &Config{}}
		p.steps.running = map[running]bool{}
		run := &stepRun{conn: newSaid(nil)}
		run.input.init(step.InputWindow)
		for rank := range uint32(2) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			read.Close() // a task that has ended
			run.tasks = append(run.tasks, &task{rank: rank, stdin: write, done: true})
		}
		pumped := make(chan struct{})
		go func() { defer close(pumped); run.pumpInput() }()
		run.readClient(p, step.NewReader(bytes.NewReader(data)))
		run.input.mu.Lock()
		if len(run.input.items) > maxInputItems || run.input.bytes < 0 {
			t.Errorf("%d pieces and %d bytes are kept", len(run.input.items), run.input.bytes)
		}
		run.input.mu.Unlock()
		run.input.close()
		<-pumped
		for _, task := range run.tasks {
			task.stdin.Close()
		}
	})
}

// FuzzOrders: whatever process 1 reads at its start, it is refused, or there
// is a filter and what can be started.
func FuzzOrders(f *testing.F) {
	for _, seed := range []string{
		`{"batch":{"argv":["L2E="],"env":["QT1C"],"cwd":"Lw==","stdout":"/o","wait":true},"step_env":["QT1C"]}`,
		`{}`, `null`, `[]`, `{"batch":{}}`, `{"batch":{"argv":[""],"stdout":"x","umask":-1}}`, "",
	} {
		filter := letAll.Encode()
		head := binary.LittleEndian.AppendUint32(nil, uint32(len(filter)))
		f.Add(slices.Concat(head, filter, []byte(seed)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		filter, config, err := ReadOrders(bytes.NewReader(data))
		if err != nil {
			return
		}
		if filter == nil {
			t.Error("accepted without a filter")
		}
		if b := config.Batch; b != nil && (len(b.Argv) == 0 || b.Argv[0] == "" || b.Stdout == "") {
			t.Errorf("accepted %+v", b)
		}
	})
}
