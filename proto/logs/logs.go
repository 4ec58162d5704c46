// Package logs makes the log of a daemon.
//
// Contract: one line is one record, whatever is in it. In text as in JSON,
// line breaks and everything else that does not print is escaped, so that
// nobody who is quoted in a log can forge a line of it or steer the terminal
// that shows it; what is too long is cut. A warning or an error that is
// repeated and repeated is written a few times, then counted: the next line
// like it, or one of its own, says how many were left out. docs/logs.md has the
// keys and what they mean.
package logs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gleaner-hpc/gleaner/proto/safejson"
)

// Formats.
const (
	Text = "text" // key=value, for humans and journald
	JSON = "json" // one object a line, for machines
)

// ErrFormat is returned for a format that is neither.
var ErrFormat = errors.New("the format of a log is text or json")

// maxTextBytes bounds one value of a line; maxStackBytes one of several lines,
// as the stack of a panic is.
const (
	maxTextBytes  = 4 << 10
	maxStackBytes = 64 << 10
)

// stackKey is the one key whose value may be long.
const stackKey = "stack"

// Options say how a log is written.
type Options struct {
	Format string // "" = Text
	Level  slog.Leveler
	// Often names messages below a warning that strangers can cause as often
	// as they like: they are counted like repeated warnings.
	Often []string
}

// CheckFormat refuses what New cannot write.
func CheckFormat(format string) error {
	if format == "" || format == Text || format == JSON {
		return nil
	}
	return fmt.Errorf("%w, not %.40q", ErrFormat, format)
}

// New makes a log that is written to w, each record with one Write. A format
// that CheckFormat refuses is Text.
func New(w io.Writer, o Options) *slog.Logger {
	options := &slog.HandlerOptions{Level: o.Level, ReplaceAttr: bounded}
	var inner slog.Handler = slog.NewTextHandler(w, options)
	if o.Format == JSON {
		inner = slog.NewJSONHandler(printing{w}, options)
	}
	return slog.New(&handler{inner: inner, limit: newLimit(inner, o.Often)})
}

// bounded makes a value fit: texts are cut, durations are written as humans
// read them, also in JSON.
func bounded(_ []string, a slog.Attr) slog.Attr {
	limit := maxTextBytes
	if a.Key == stackKey {
		limit = maxStackBytes
	}
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(cut(a.Value.String(), limit))
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	case slog.KindAny:
		switch value := a.Value.Any().(type) {
		case *slog.Source, nil:
		case error:
			a.Value = slog.StringValue(cut(value.Error(), limit))
		case fmt.Stringer:
			a.Value = slog.StringValue(cut(value.String(), limit))
		case []uint32:
			a.Value = slog.StringValue(cut(strings.Trim(strings.ReplaceAll(fmt.Sprint(value), " ", ","), "[]"), limit))
		case []string:
			a.Value = slog.StringValue(cut(strings.Join(value, ","), limit))
		default:
			a.Value = slog.StringValue(cut(fmt.Sprint(value), limit))
		}
	}
	return a
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// printing escapes in JSON what does not print and yet needs no escape there:
// control characters above 0x7f, and those that turn the direction of a line.
// All of them are in strings, where an escape means the same.
type printing struct {
	w io.Writer
}

func (p printing) Write(line []byte) (int, error) {
	body, end := line, ""
	if n := len(line); n > 0 && line[n-1] == '\n' {
		body, end = line[:n-1], "\n"
	}
	for i := 0; i < len(body); i++ {
		if body[i] >= utf8.RuneSelf {
			line = append(safejson.Escaped(body), end...)
			break
		}
	}
	return p.w.Write(line)
}
