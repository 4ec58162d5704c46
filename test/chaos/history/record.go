package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A record is a file of lines. The first is the Run as JSON; then come signs of
// life, "beat TIME", "term TIME" when the process was asked to end, and "end
// TIME CODE" as its last act. A process that is killed leaves a record without
// an end, perhaps with a torn last line.
const (
	beatWord = "beat"
	termWord = "term"
	endWord  = "end"
)

// ErrRecord is returned for a record that no process of the test can have
// written.
var ErrRecord = errors.New("bad record")

// Line is the first line of a run's record.
func (r *Run) Line() ([]byte, error) {
	line, err := json.Marshal(r)
	return append(line, '\n'), err
}

// Beat, Term and End are the further lines.
func Beat(now int64) []byte { return fmt.Appendf(nil, "%s %d\n", beatWord, now) }

// Term is written when the process was asked to end.
func Term(now int64) []byte { return fmt.Appendf(nil, "%s %d\n", termWord, now) }

// End is a process's last act.
func End(now int64, code int) []byte { return fmt.Appendf(nil, "%s %d %d\n", endWord, now, code) }

// ReadRecord reads a record. ok is false for one whose process was killed
// before its first line was whole: it says nothing. Nodes is left to the caller,
// who knows how host lists are written.
func ReadRecord(text []byte) (run Run, ok bool, err error) {
	first, rest, whole := bytes.Cut(text, []byte("\n"))
	if !whole {
		return run, false, nil
	}
	if err := json.Unmarshal(first, &run); err != nil {
		return run, false, fmt.Errorf("%w: %q: %w", ErrRecord, shorten(first), err)
	}
	run.Last = run.Start
	for len(rest) > 0 {
		var line []byte
		if line, rest, whole = bytes.Cut(rest, []byte("\n")); !whole {
			break // torn
		}
		if err := run.read(string(line)); err != nil {
			return run, false, err
		}
	}
	return run, true, nil
}

func (r *Run) read(line string) error {
	words := strings.Fields(line)
	if len(words) < 2 {
		return fmt.Errorf("%w: %q", ErrRecord, line)
	}
	at, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil || r.Ended {
		return fmt.Errorf("%w: %q", ErrRecord, line)
	}
	switch {
	case words[0] == beatWord:
		r.Beats++
	case words[0] == termWord:
		r.Term = true
	case words[0] == endWord && len(words) == 3:
		if r.Code, err = strconv.Atoi(words[2]); err != nil {
			return fmt.Errorf("%w: %q", ErrRecord, line)
		}
		r.Ended = true
	default:
		return fmt.Errorf("%w: %q", ErrRecord, line)
	}
	r.Last = max(r.Last, at)
	return nil
}

func shorten(text []byte) []byte { return text[:min(len(text), 80)] }

func itoa(n int) string { return strconv.Itoa(n) }
