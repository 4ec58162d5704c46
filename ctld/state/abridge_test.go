package state

import (
	"bytes"
	"testing"
)

// TestAbridge: content that a job has need not be in the log again, and once
// no job has it any more it is asked for whole.
func TestAbridge(t *testing.T) {
	s := New()
	whole, _ := benchSubmit(1, true)
	if before := s.Abridge(whole); !bytes.Equal(before.Script, whole.Script) || before.KnownScript != (Digest{}) {
		t.Fatal("content that nobody has was left out")
	}
	first := applyCommand(t, s, whole, RequestID{}, 1).JobID
	short := s.Abridge(whole)
	if len(short.Script)+len(short.Environment) != 0 {
		t.Fatalf("a script of %d bytes is still there", len(short.Script))
	}
	entry, err := Encode(short, RequestID{}, 1)
	if err != nil || len(entry) > 512 {
		t.Fatalf("an entry of %d bytes: %v", len(entry), err)
	}
	second := applyCommand(t, s, short, RequestID{}, 1).JobID
	a, _ := s.View().Job(first)
	b, _ := s.View().Job(second)
	if b == nil || a.Script != b.Script || a.Environment != b.Environment || !bytes.Equal(b.Script.Bytes, whole.Script) {
		t.Fatal("the second job has another script")
	}
	tiny := whole
	tiny.Script = []byte("#!/bin/sh\n")
	applyCommand(t, s, tiny, RequestID{}, 1)
	if again := s.Abridge(tiny); len(again.Script) == 0 {
		t.Error("a digest is longer than what it replaces")
	}
	both := short
	both.Script = whole.Script
	if result := applyCommand(t, s, both, RequestID{}, 1); result.Refused == nil || result.Refused.Code != Invalid {
		t.Errorf("content and digest: %+v", result)
	}
	applyCommand(t, s, CancelJobs{Targets: []Target{{Job: 1}, {Job: 2}, {Job: 3}}, Privileged: true}, RequestID{}, 1)
	applyCommand(t, s, PurgeJobs{BeforeMS: 1 << 40}, RequestID{}, 1<<40)
	before := persisted(t, s)
	id := RequestID{1}
	if result := applyCommand(t, s, short, id, 1<<40); result.Refused == nil || result.Refused.Code != ContentGone {
		t.Fatalf("content that is gone: %+v", result)
	}
	if after := persisted(t, s); len(after) != len(before) {
		t.Error("a refused submission left something behind")
	}
	if result := applyCommand(t, s, whole, id, 1<<40); result.Refused != nil || result.JobID != 4 {
		t.Fatalf("the whole submission after that: %+v", result)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestOwnSurvivesPacking, whatever is in it.
func TestOwnSurvivesPacking(t *testing.T) {
	long := string(bytes.Repeat([]byte{'x'}, 70_000))
	for _, own := range []Own{
		{}, {Name: "n"}, {Arguments: []string{""}}, {Arguments: []string{"", "a", ""}, Command: "/c"},
		{Name: long, Comment: "\x00\xff", WorkDirectory: "/w", StandardOutput: "o", StandardError: "e", StandardInput: "i", Command: "c", Arguments: []string{long}},
	} {
		back := own.pack().unpack()
		if recordDigest(own) != recordDigest(back) || own.pack().name() != own.Name {
			t.Errorf("%.80v came back as %.80v", own, back)
		}
	}
}
