package clienttest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the commands print into the dialogues")

// Dialogues plays testdata/*.dialogue against the stub cluster: each line "$
// command" is followed by what it prints. Lines of standard error begin with "!
// ", a line "exit N" gives a status other than 0, and blanks at the end of a
// line are shown as "~" so that they are seen. NAME=VALUE before a command sets
// its environment, and "| pretty", "| schema" or "| pick KEY,..." after it
// shows its JSON in a form that humans can read.
func (p Player) Dialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/*.dialogue")
	if err != nil || len(files) == 0 {
		t.Fatal("no dialogues", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { p.playDialogue(t, file) })
	}
}

func (p Player) playDialogue(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	FixTime(t)
	ServeStub(t, StubCluster())
	var played strings.Builder
	for _, block := range strings.SplitAfter(string(text), "\n") {
		line := strings.TrimSuffix(block, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
			played.WriteString(block)
		case strings.HasPrefix(line, "$ "):
			played.WriteString(block)
			played.WriteString(p.answerTo(t, strings.TrimPrefix(line, "$ ")))
			played.WriteString("\n")
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(played.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, want := played.String(), string(text); got != want {
		t.Errorf("the dialogue went otherwise; run with -rewrite and look at the difference\n%s", firstDifference(got, want))
	}
}

// answerTo runs a line and writes what came of it.
func (p Player) answerTo(t *testing.T, line string) string {
	var environ []string
	for {
		word, rest, found := strings.Cut(line, " ")
		if !found || !strings.Contains(word, "=") {
			break
		}
		environ, line = append(environ, word), rest
	}
	line, filter, piped := strings.Cut(line, " | ")
	stdout, stderr, exit := p.Typed(t, context.Background(), environ, line)
	if piped {
		stdout = filtered(t, filter, stdout)
	}
	var answer strings.Builder
	for printed := range strings.Lines(stdout) {
		text := strings.TrimSuffix(printed, "\n")
		if trimmed := strings.TrimRight(text, " "); trimmed != text {
			text = trimmed + strings.Repeat("~", len(text)-len(trimmed))
		}
		answer.WriteString(text + "\n")
	}
	for printed := range strings.Lines(stderr) {
		answer.WriteString("! " + printed)
	}
	if exit != 0 {
		fmt.Fprintf(&answer, "exit %d\n", exit)
	}
	return answer.String()
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d: got  %q\n         want %q", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("got %d lines, want %d", len(a), len(b))
}
