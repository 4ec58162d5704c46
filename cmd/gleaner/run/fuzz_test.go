package run

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// heard is a connection to a node that says what it says, whatever it is told.
type heard struct{ io.Reader }

func (heard) Write(p []byte) (int, error) { return len(p), nil }
func (heard) Close() error                { return nil }

// FuzzStep: whatever two nodes of a step say, grun comes to an end with an
// exit status, does not take failure for success, keeps no more of their
// output than a line of each task, and says itself only plain text.
func FuzzStep(f *testing.F) {
	frames := func(messages ...step.Message) []byte {
		var all bytes.Buffer
		for _, message := range messages {
			if err := step.Write(&all, message); err != nil {
				f.Fatal(err)
			}
		}
		return all.Bytes()
	}
	started := &step.Started{Tasks: []step.StartedTask{{Rank: 0, Pid: 7}}}
	sound := frames(started, &step.Output{Rank: 0, Stream: step.Stdout, Data: []byte("a\nb")}, &step.Exited{Rank: 0, Code: 3}, &step.Exited{Rank: 1, Signal: 9}, &step.Done{})
	f.Add(sound, frames(&step.Started{}, &step.InputCredit{Bytes: 1 << 31}, &step.Exited{Rank: 2}, &step.Done{}))
	f.Add(frames(&step.Failed{Text: "\x1b[2J", Code: -7}), frames(started, started))
	f.Add(frames(&step.Output{Rank: 1 << 31, Stream: step.Stderr, Data: []byte("x")}), frames(&step.Exited{Rank: 77, Code: 1}))
	f.Add(frames(started, &step.Fence{Data: []byte("x")}, &step.Done{}), frames(&step.Fence{Pairs: step.Pairs{"a": "b"}}, &step.Fence{Aborted: true, Code: -1, Text: "\x1b"}))
	f.Add(frames(&step.Done{}, &step.Done{}), frames(&step.PortNumber{Port: 1}))
	f.Add([]byte("\x13\x00\x00\x00\x11{\"code\":256,\"a\":0}"), []byte{})
	command := Command()
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var stderr bytes.Buffer
		inv := &option.Invocation{Command: command, Values: option.Values{optKillOnBadExit: {"1"}}, Stderr: &stderr}
		r := &stepRunner{inv: inv, shape: &jobShape{job: "7"}, plan: []nodeTasks{{node: "n1", ranks: []uint32{0, 1}}, {node: "n2", ranks: []uint32{2}}},
			over: make([]bool, 2), started: make([]bool, 2), open: 2, unstarted: 2, ends: map[taskEnd][]uint32{}}
		r.outputs = &outputs{modes: map[step.Stream]streamMode{}, writers: map[step.Stream]io.Writer{step.Stdout: io.Discard, step.Stderr: io.Discard}, labelWidth: 1}
		if err := r.outputs.open(3, false, nil); err != nil {
			t.Fatal(err)
		}
		for _, said := range [][]byte{first, second} {
			client := step.NewClient(heard{bytes.NewReader(said)})
			if err := client.Launch(&step.Launch{Argv: step.Strings{"x"}, Tasks: []step.Task{{}}, Input: step.InputNone}); err != nil {
				t.Fatal(err)
			}
			r.clients = append(r.clients, client)
		}
		failed := play(t, r)
		r.report()
		if err := r.outputs.close(); err != nil {
			t.Fatal(err)
		}
		if r.open != 0 || r.unstarted < 0 {
			t.Fatalf("%d nodes are open, %d have not started", r.open, r.unstarted)
		}
		if r.status < 0 || r.status > 255 || failed && r.status == 0 {
			t.Fatalf("status %d; failed: %v", r.status, failed)
		}
		clienttest.CheckTerminal(t, "grun", stderr.Bytes())
	})
}

// play lets the nodes speak in turn until each is over, and reports whether
// any said that something failed.
func play(t *testing.T, r *stepRunner) (failed bool) {
	over := make([]bool, len(r.clients))
	for !over[0] || !over[1] {
		for place, client := range r.clients {
			if over[place] {
				continue
			}
			message, err := client.Next()
			given := r.over[place]
			r.handle(nodeEvent{place, message, err})
			switch message := message.(type) {
			case *step.Exited:
				failed = failed || !given && (message.Code != 0 || message.Signal != 0)
			case *step.Failed:
				failed = failed || !given
			}
			_, done := message.(*step.Done)
			_, refused := message.(*step.Failed)
			over[place] = err != nil || done || refused
			failed = failed || err != nil && !given
		}
	}
	for key, line := range r.outputs.partial {
		if key.rank > 2 || len(line) > maxPartialLine+step.MaxDataBytes {
			t.Fatalf("%d bytes are kept of task %d", len(line), key.rank)
		}
	}
	if strings.Count(r.inv.Stderr.(*bytes.Buffer).String(), "\n") > 100 {
		t.Fatal("grun says too much")
	}
	return failed
}
