package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lines are those of a file, each of which must be one JSON object.
func lines(t *testing.T, path string) []Entry {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var found []Entry
	scan := bufio.NewScanner(bytes.NewReader(text))
	for scan.Scan() {
		var e Entry
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			t.Fatalf("%q: %v", scan.Text(), err)
		}
		found = append(found, e)
	}
	return found
}

func open(t *testing.T, path string, to *bytes.Buffer) *Log {
	t.Helper()
	l, err := Open(path, "c1", slog.New(slog.NewTextHandler(to, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLinesCannotBeForged: whatever text comes in, a line stays one line, and
// the file is nobody else's to read.
func TestLinesCannotBeForged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path, &bytes.Buffer{})
	evil := []string{"x\n{\"verb\":\"forged\"}", "\r\n", "\x1b[2J", "\u2028", "\x00", "\xff\xfe", "\"},{"}
	for _, text := range evil {
		if err := l.Write(&Entry{Verb: text, User: text, Nodes: text, Targets: []string{text}, Error: text, Jobs: []Job{{Job: text, Owner: text}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	found := lines(t, path)
	if len(found) != len(evil) {
		t.Fatalf("%d lines of %d", len(found), len(evil))
	}
	text, _ := os.ReadFile(path)
	if i := bytes.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' }); i >= 0 {
		t.Errorf("a control character at byte %d", i)
	}
	if about, err := os.Stat(path); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", about.Mode(), err)
	}
	// A start appends.
	l = open(t, path, &bytes.Buffer{})
	if err := errors.Join(l.Write(&Entry{Verb: "later"}), l.Close()); err != nil {
		t.Fatal(err)
	}
	if found := lines(t, path); len(found) != len(evil)+1 {
		t.Errorf("%d lines after another start", len(found))
	}
}

// TestRenamed: a file that was renamed gets nothing more once the log was told,
// and by itself soon.
func TestRenamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path, &bytes.Buffer{})
	defer l.Close()
	write := func(verb string) {
		if err := l.Write(&Entry{Verb: verb}); err != nil {
			t.Fatal(err)
		}
	}
	write("before")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	write("after")
	if old, new := lines(t, path+".1"), lines(t, path); len(old) != 1 || len(new) != 1 || new[0].Verb != "after" {
		t.Fatalf("%v and %v", old, new)
	}
	if err := os.Rename(path, path+".2"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no new file was begun")
		}
	}
}

// TestNotWritten: a line that cannot be written is in the daemon's log, and the
// log says so until one could be written.
func TestNotWritten(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full: the disk must be full")
	}
	var said bytes.Buffer
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path, &said)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	file := l.file
	l.file = full
	l.mu.Unlock()
	if err := l.Write(&Entry{Verb: "lost-from-the-file"}); err == nil {
		t.Fatal("a line was written to a full disk")
	}
	if l.Err() == nil || l.Problem() == "" || !strings.Contains(said.String(), "lost-from-the-file") {
		t.Fatalf("%v, %q, said %q", l.Err(), l.Problem(), said.String())
	}
	l.mu.Lock()
	l.file = file
	l.mu.Unlock()
	if err := errors.Join(l.Write(&Entry{Verb: "again"}), l.Err(), full.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if found := lines(t, path); len(found) != 1 || found[0].Verb != "again" {
		t.Fatalf("%v", found)
	}
}
