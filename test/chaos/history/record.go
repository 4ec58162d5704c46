package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A record is a file of lines. The first is the Run as JSON; then come signs of
// life, "beat TIME", "term TIME" when the process was asked to end, and "end
// TIME CODE" as its last act. A process that is killed leaves a record without
// an end, perhaps with a torn last line. One that counts writes "count TIME N";
// one that was saved and continues, perhaps on another node, continues with its record,
// with "moved TIME EPOCH DEVICE,DEVICE NAME,NAME" before what it writes in its new
// run: the devices that it can open there, and under which names it sees any. If it
// resumed from an image of some time ago, its numbers are smaller again.
const (
	beatWord  = "beat"
	countWord = "count"
	movedWord = "moved"
	termWord  = "term"
	endWord   = "end"

	none = "-"
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

// Count is a sign of life with a number.
func Count(now int64, n int) []byte { return fmt.Appendf(nil, "%s %d %d\n", countWord, now, n) }

// Moved is written by a process that finds itself in another run of its job.
func Moved(now int64, epoch uint32, devices, names []string) []byte {
	seen := ""
	if len(devices)+len(names) > 0 {
		seen = cmp.Or(strings.Join(devices, ","), none) + " " + cmp.Or(strings.Join(names, ","), none)
	}
	return fmt.Appendf(nil, "%s %d %d %s\n", movedWord, now, epoch, seen)
}

// Term is written when the process was asked to end.
func Term(now int64) []byte { return fmt.Appendf(nil, "%s %d\n", termWord, now) }

// End is a process's last act.
func End(now int64, code int) []byte { return fmt.Appendf(nil, "%s %d %d\n", endWord, now, code) }

// ReadRecord reads a record: the run in which it was begun, and those in which its
// process continued. There is none if the process was killed before its first line
// was whole. Nodes is left to the caller, who knows how host lists are written.
func ReadRecord(text []byte) ([]Run, error) {
	var run Run
	first, rest, whole := bytes.Cut(text, []byte("\n"))
	if !whole {
		return nil, nil
	}
	if err := json.Unmarshal(first, &run); err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrRecord, shorten(first), err)
	}
	run.Last, run.Began, run.Signs = run.Start, run.Names, []int64{run.Start}
	runs := []Run{run}
	for len(rest) > 0 {
		var line []byte
		if line, rest, whole = bytes.Cut(rest, []byte("\n")); !whole {
			break // torn
		}
		last := &runs[len(runs)-1]
		next, err := last.moved(string(line))
		if err != nil {
			return nil, err
		}
		if next == last {
			continue
		}
		if next != nil {
			runs = append(runs, *next)
		} else if err := last.read(string(line)); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// moved reads a line that begins another run of the process, or this one once more;
// nil if it is none.
func (r *Run) moved(line string) (*Run, error) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != movedWord {
		return nil, nil
	}
	var at int64
	var epoch uint64
	err := ErrRecord
	if len(words) == 3 || len(words) == 5 {
		at, err = strconv.ParseInt(words[1], 10, 64)
	}
	if err == nil {
		epoch, err = strconv.ParseUint(words[2], 10, 32)
	}
	again := uint32(epoch) <= r.Epoch && at <= r.Last // it was saved when it was about to write that
	if err != nil || uint32(epoch) <= r.Epoch && (r.Ended || !again) {
		return nil, fmt.Errorf("%w: %q", ErrRecord, line)
	}
	if again {
		return r, nil
	}
	next := *r
	next.Epoch, next.Moved, next.Start, next.Last = uint32(epoch), true, at, at
	next.Signs = []int64{at}
	next.Beats, next.Term, next.First, next.Count, next.Devices, next.Names = 0, false, 0, 0, nil, nil
	next.Ended, next.Code = false, 0 // a node that was lost may have come to the end of its run
	if len(words) == 5 {
		next.Devices, next.Names = listed(words[3]), listed(words[4])
	}
	return &next, nil
}

func listed(word string) []string {
	if word == none {
		return nil
	}
	return strings.Split(word, ",")
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
	case words[0] == countWord && len(words) == 3:
		if err := r.count(words[2]); err != nil {
			return fmt.Errorf("%w: %q: %w", ErrRecord, line, err)
		}
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
	r.Last, r.Signs = max(r.Last, at), append(r.Signs, at)
	return nil
}

// count reads the next number: of one run they follow each other.
func (r *Run) count(word string) error {
	n, err := strconv.Atoi(word)
	switch {
	case err != nil:
		return err
	case r.First == 0:
		r.First = n
	case n == r.stray+1 && r.stray > 0, n != r.Count+1 && n > r.Count:
		return fmt.Errorf("it follows %d", r.Count)
	case n <= r.Count: // it was stopped when it was about to write, and resumed from there
		r.stray = n
		return nil
	}
	r.Count = n
	r.Beats++
	return nil
}

func shorten(text []byte) []byte { return text[:min(len(text), 80)] }

func itoa(n int) string { return strconv.Itoa(n) }
