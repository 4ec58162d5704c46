package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
)

// hostile is what somebody may put into a name, a reason or an error.
var hostile = []string{
	"\ntime=2026-01-01T00:00:00Z level=INFO msg=request user=0",
	"\r\n{\"level\":\"INFO\",\"msg\":\"forged\"}", "\x1b[2J\x1b]0;x\a", "\u009b2J", "\u2028\u2029\u202e", "a\x00b\xff\xfe", `" level=ERROR x="`, "\\\n", "\U000e0001",
}

var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// TestNobodyForgesALine: whatever is logged, in a message, a value, a key of
// raft's, a group or an error, a record is one line of printing characters.
func TestNobodyForgesALine(t *testing.T) {
	for _, format := range []string{Text, JSON} {
		for _, bad := range hostile {
			var out bytes.Buffer
			log := New(&out, Options{Format: format})
			log.With("user", bad).WithGroup("g").Warn(bad, "error", errors.New(bad), "list", []string{bad, bad}, "bytes", []byte(bad), "any", struct{ X string }{bad}, bad, 1)
			text, whole := strings.CutSuffix(out.String(), "\n")
			if !whole || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%s: %q becomes %q", format, bad, out.String())
			}
			if bare := quoted.ReplaceAllString(text, "_"); format == Text && strings.Count(bare, "level=") != 1 {
				t.Errorf("%q forges a field: %s", bad, text)
			}
			if format == JSON {
				var record map[string]any
				if err := json.Unmarshal([]byte(text), &record); err != nil {
					t.Errorf("%q: %v: %s", bad, err, text)
				} else if record["level"] != "WARN" || record["user"] != strings.ToValidUTF8(bad, "\ufffd") && !strings.Contains(bad, "\xff") {
					t.Errorf("%q reads as %q", bad, record["user"])
				}
			}
		}
	}
}

// TestLinesAreBounded: what is too long is cut, and a duration is a text.
func TestLinesAreBounded(t *testing.T) {
	var out bytes.Buffer
	log := New(&out, Options{Format: JSON})
	long := strings.Repeat("é", 1<<20)
	log.Error("x", "detail", long, "error", errors.New(long), "took", 1500*time.Microsecond, "list", []string{long}, "stack", long)
	if out.Len() > 2*maxStackBytes+8*maxTextBytes || !strings.Contains(out.String(), `"took":"1.5ms"`) {
		t.Errorf("%d bytes: %.200s", out.Len(), out.String())
	}
}

// lines is a place to write to at the same time.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.all
	l.all = nil
	return taken
}

// TestRepeatedWarningsAreCounted: a storm writes a few lines and a number that
// accounts for all of them; other lines are not held up by it.
func TestRepeatedWarningsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &lines{}
		log := New(out, Options{Often: []string{"refused"}})
		storm := func(n int) {
			for i := range n {
				log.With("job", i).Warn("broken: mend it", "n", i)
			}
		}
		storm(100_000)
		log.Error("broken: mend it")
		log.Warn("other: mend it")
		for range 30 {
			log.Info("request")
			log.Info("refused")
		}
		if got := out.take(); len(got) != burst+1+1+30+burst {
			t.Fatalf("%d lines", len(got))
		}
		time.Sleep(window)
		synctest.Wait()
		got := out.take()
		if len(got) != 2 || !strings.Contains(strings.Join(got, ""), fmt.Sprintf(`level=WARN msg="broken: mend it" left_out=%d`, 100_000-burst)) {
			t.Fatalf("%q", got)
		}
		// One after a while is written, and one that ends a window says what
		// was left out in it.
		storm(burst + 5)
		time.Sleep(window / 2)
		storm(1)
		if got := out.take(); len(got) != burst {
			t.Fatalf("%d lines", len(got))
		}
		time.Sleep(window/2 - time.Millisecond)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		storm(1)
		all := strings.Join(out.take(), "")
		if strings.Count(all, "left_out=6") != 1 {
			t.Fatalf("%s", all)
		}
		time.Sleep(10 * window)
		synctest.Wait()
		if got := out.take(); len(got) != 0 {
			t.Fatalf("%q", got)
		}
	})
}

func TestLevelAndFormat(t *testing.T) {
	var out bytes.Buffer
	log := New(&out, Options{Level: slog.LevelWarn})
	log.Info("no")
	log.Warn("yes")
	if !strings.Contains(out.String(), "msg=yes") || strings.Contains(out.String(), "no") {
		t.Error(out.String())
	}
	for format, good := range map[string]bool{"": true, Text: true, JSON: true, "xml": false, "JSON": false} {
		if err := CheckFormat(format); (err == nil) != good {
			t.Errorf("%q: %v", format, err)
		}
	}
}

func BenchmarkLine(b *testing.B) {
	for _, format := range []string{Text, JSON} {
		b.Run(format, func(b *testing.B) {
			log := New(discard{}, Options{Format: format})
			b.ReportAllocs()
			for b.Loop() {
				log.Info("request", "method", "Submit", "user", 1000, "request_id", "3a1c7a40-6b3f-4b63-9a37-0b6f8f0f2c11", "result", "OK", "job", 12, "took", time.Millisecond)
			}
		})
	}
}

type discard struct{}

func (discard) Write(line []byte) (int, error) { return len(line), nil }
