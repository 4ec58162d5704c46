package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Move is a node that leaves a cluster, or joins it.
type Move struct {
	AtS     int64 // since the record began
	Node    string
	Arrives bool
}

// maxMoves bounds a record.
const maxMoves = 1_000_000

// ReadMoves reads a record of nodes that come and go: lines of a time in milliseconds,
// add or remove, and the name of the node. The moves come in the order of their times.
func ReadMoves(from io.Reader) ([]Move, error) {
	lines := newLines(from)
	var moves []Move
	for lines.scan() {
		if len(lines.text) == 0 || lines.text[0] == '#' {
			continue
		}
		move, err := moveLine(lines.text)
		if err == nil && len(moves) == maxMoves {
			return nil, &LineError{lines.number, fmt.Sprintf("there are more than %d moves; cut the record", maxMoves)}
		}
		if lines.note(err) {
			continue
		}
		moves = append(moves, move)
	}
	if err := lines.err(); err != nil {
		return nil, err
	}
	if len(moves) == 0 {
		return nil, fmt.Errorf("no node moves in it: %w", ErrEmpty)
	}
	slices.SortStableFunc(moves, func(a, b Move) int { return cmp.Compare(a.AtS, b.AtS) })
	return moves, nil
}

func moveLine(line []byte) (Move, error) {
	words := strings.Split(string(line), ",")
	if len(words) != 3 {
		return Move{}, fmt.Errorf("it has %d fields and not 3: milliseconds, add or remove, and a node", len(words))
	}
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	atMS, err := integer(words[0])
	switch {
	case err != nil:
		return Move{}, fmt.Errorf("field 1: %w", err)
	case atMS < 0 || atMS/1000 > maxS:
		return Move{}, fmt.Errorf("%d is no time; give milliseconds from 0 on", atMS)
	case words[1] != "add" && words[1] != "remove":
		return Move{}, fmt.Errorf("%.40q is neither add nor remove", words[1])
	}
	return Move{AtS: atMS / 1000, Node: words[2], Arrives: words[1] == "add"}, nil
}

// lines are those of a file, and what is wrong with them.
type lines struct {
	scanner *bufio.Scanner
	number  int // from 1
	text    []byte
	wrong   LineErrors
}

func newLines(from io.Reader) *lines {
	l := &lines{scanner: bufio.NewScanner(from)}
	l.scanner.Buffer(nil, maxLine)
	return l
}

// scan goes to the next line, unless enough is wrong.
func (l *lines) scan() bool {
	if l.wrong.full() || !l.scanner.Scan() {
		return false
	}
	l.number++
	l.text = l.scanner.Bytes()
	if l.number == 1 {
		l.text = bytes.TrimPrefix(l.text, []byte("\uFEFF")) // as spreadsheets begin their files
	}
	l.text = bytes.TrimSpace(l.text)
	return true
}

// note notes what is wrong with the line, if something is.
func (l *lines) note(err error) bool {
	if err != nil {
		l.wrong = append(l.wrong, LineError{l.number, err.Error()})
	}
	return err != nil
}

// err is what was wrong with the lines, or why there are no more.
func (l *lines) err() error {
	switch err := l.scanner.Err(); {
	case err == bufio.ErrTooLong:
		l.wrong = append(l.wrong, LineError{l.number + 1, fmt.Sprintf("it has more than %d bytes; is this a trace?", maxLine)})
	case err != nil:
		return fmt.Errorf("after line %d: %w", l.number, err)
	}
	if len(l.wrong) > 0 {
		return l.wrong
	}
	return nil
}
