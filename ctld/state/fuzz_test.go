package state

import (
	"bytes"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/sched"
)

// FuzzApply: whatever an entry holds, Apply neither panics nor breaks an
// invariant, and two replicas agree.
func FuzzApply(f *testing.F) {
	w, s := newWalker(7), New()
	w.shares, w.frozen = true, true
	for index := uint64(1); index <= 80; index++ {
		entry, err := Encode(w.next(s.View()), RequestID{}, int64(index))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(entry)
		if _, err := s.Apply(index, entry); err != nil {
			f.Fatal(err)
		}
	}
	base := persisted(f, s)
	f.Fuzz(func(t *testing.T, entry []byte) {
		tryEntry(t, base, entry)
	})
}

// FuzzBody is FuzzApply with the envelope's checksum made right, so that the
// bodies are reached.
func FuzzBody(f *testing.F) {
	w, s := newWalker(8), New()
	w.shares, w.frozen = true, true
	for index := uint64(1); index <= 80; index++ {
		command := w.next(s.View())
		entry, err := Encode(command, RequestID{}, int64(index))
		if err != nil {
			f.Fatal(err)
		}
		body, err := encoding.Marshal(command)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(command.kind()), body)
		if _, err := s.Apply(index, entry); err != nil {
			f.Fatal(err)
		}
	}
	base := persisted(f, s)
	f.Fuzz(func(t *testing.T, kind uint16, body []byte) {
		row, known := commands[Kind(kind)]
		if !known {
			return
		}
		command, err := row.decode(body)
		if err != nil {
			return
		}
		entry, err := Encode(command, RequestID{}, 1_000_000)
		if err != nil {
			return
		}
		tryEntry(t, base, entry)
	})
}

// FuzzCommands applies several commands of any content one after another, with
// a plan between them: each state is sound and can be shown, a plan fits the
// state that it was made from, and what is persisted is restored as it was.
func FuzzCommands(f *testing.F) {
	w, s := newWalker(9), New()
	var kinds []byte
	var bodies [][]byte
	for index := uint64(1); index <= 200; index++ {
		command := w.next(s.View())
		body, err := encoding.Marshal(command)
		if err != nil {
			f.Fatal(err)
		}
		kinds, bodies = append(kinds, byte(command.kind())), append(bodies, body)
		if n := len(kinds); n%20 == 0 {
			f.Add(prototest.Join(kinds[n-20:], bodies[n-20:]))
		}
		entry, err := Encode(command, RequestID{}, int64(index))
		if err != nil {
			f.Fatal(err)
		}
		mustApply(f, s, index, entry)
	}
	f.Add(prototest.Join(kinds[:12], bodies[:12]))
	base := persisted(f, walked(f, 9, 60))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Restore(bytes.NewReader(base))
		if err != nil {
			t.Fatal(err)
		}
		apply := func(command Command) Result {
			entry, err := Encode(command, RequestID{}, s.TimeMS()+100)
			if err != nil {
				return Result{}
			}
			result := mustApply(t, s, s.Index()+1, entry)
			if err := s.Check(); err != nil {
				t.Fatalf("after %T: %v", command, err)
			}
			return result
		}
		kinds, bodies := prototest.Split(data, 24)
		for i := range bodies {
			row, known := commands[Kind(kinds[i])]
			if !known {
				continue
			}
			command, err := row.decode(bodies[i])
			if err != nil {
				continue
			}
			apply(command)
			snapshot := s.View().SchedSnapshot(s.TimeMS())
			plan, _ := sched.Schedule(snapshot, sched.Memo{})
			if len(plan.Starts) == 0 {
				continue
			}
			for _, start := range apply(PlanToCommand(&snapshot, &plan)).Starts {
				if start.Dropped != "" {
					t.Fatalf("a planned start of job %d is dropped: %s", start.Asked, start.Dropped)
				}
			}
		}
		checkMessages(t, s.View())
		again, err := Restore(bytes.NewReader(persisted(t, s)))
		if err != nil {
			t.Fatalf("what was persisted is not restored: %v", err)
		}
		checkReplicas(t, s, again)
	})
}

func tryEntry(t *testing.T, base, entry []byte) {
	one, err := Restore(bytes.NewReader(base))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Restore(bytes.NewReader(base))
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := one.Apply(one.Index()+1, entry)
	_, err2 := two.Apply(two.Index()+1, entry)
	if (err1 == nil) != (err2 == nil) {
		t.Fatalf("replicas disagree: %v, %v", err1, err2)
	}
	if err := one.Check(); err != nil {
		t.Fatal(err)
	}
	checkMessages(t, one.View())
	checkReplicas(t, one, two)
}

// FuzzRestore: whatever is read, Restore neither panics nor answers a state
// that persists otherwise than it was read.
func FuzzRestore(f *testing.F) {
	f.Add(persisted(f, New()))
	f.Add(persisted(f, walked(f, 3, 40)))
	f.Fuzz(func(t *testing.T, data []byte) {
		restoreAndResume(t, data)
	})
}

// FuzzRestoreRecord puts a record of its own into a sound state, with right
// checksums, so that the records are reached.
func FuzzRestoreRecord(f *testing.F) {
	kinds, bodies := frames(f, persisted(f, walked(f, 3, 60)))
	for i := range kinds {
		f.Add(uint16(i), byte(kinds[i]), bodies[i])
	}
	f.Fuzz(func(t *testing.T, at uint16, kind byte, body []byte) {
		if int(at) >= len(kinds)-1 || encodedWrong(body) {
			return
		}
		newKinds, newBodies := append([]frameKind(nil), kinds...), append([][]byte(nil), bodies...)
		newKinds[at], newBodies[at] = frameKind(kind), body
		restoreAndResume(t, join(t, newKinds, newBodies))
	})
}

func encodedWrong(body []byte) bool { return decoding.Wellformed(body) != nil }

func restoreAndResume(t *testing.T, data []byte) {
	s, err := Restore(bytes.NewReader(data))
	if err != nil {
		return
	}
	w := newWalker(1)
	for range 20 {
		entry, err := Encode(w.next(s.View()), RequestID{}, s.TimeMS())
		if err != nil {
			return
		}
		if _, err := s.Apply(s.Index()+1, entry); err != nil {
			t.Fatal(err)
		}
	}
}
