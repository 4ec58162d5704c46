// Package slurmconf reads slurm.conf, gres.conf and topology.conf, and writes the
// cluster.toml and gnoded.toml that mean the same.
//
// Read takes the files through a function, so that it knows no path; every setting keeps the
// file and the line that it came from. A line that no Slurm would read is an error with its
// place. Convert carries over what has a counterpart, tries each setting with the reader of
// cluster.toml itself, and lists the rest with the reason: what it returns is a policy that
// can be put in force.
package slurmconf

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of what is read.
const (
	MaxBytes    = 4 << 20 // of one file
	maxLines    = 200_000 // of all files
	maxIncludes = 8       // files that include one another
	maxFiles    = 1000
	maxHosts    = 65536 // nodes, and names in gres.conf
)

// maxNamed bounds the names in all host lists together: a short line may stand for
// tens of thousands, which are written out. Thousands of nodes in a hundred partitions
// have that many.
var maxNamed = 1 << 20

// ErrSyntax is returned for a line that cannot be read.
var ErrSyntax = errors.New("cannot be read")

// Place is where something is said.
type Place struct {
	File string
	Line int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Setting is one Key=Value.
type Setting struct {
	Key, Value string
}

// Line is one line, continuations joined.
type Line struct {
	Place
	Settings []Setting
}

// first is the key that a line begins with, in lower case.
func (l *Line) first() string { return strings.ToLower(l.Settings[0].Key) }

// Read reads a file and those that it includes. open gives the contents of a file by the
// name that is written, and refuses those that it does not want read.
func Read(name string, open func(name string) ([]byte, error)) ([]Line, error) {
	r := &reader{open: open}
	err := r.file(name, 0)
	return r.lines, err
}

type reader struct {
	open  func(string) ([]byte, error)
	lines []Line
	files int
}

func (r *reader) file(name string, depth int) error {
	if r.files++; depth > maxIncludes || r.files > maxFiles {
		return fmt.Errorf("%s: %w: too many files include one another", name, ErrSyntax)
	}
	text, err := r.open(name)
	if err != nil {
		return err
	}
	if len(text) > MaxBytes {
		return fmt.Errorf("%s: %w: it has more than %d bytes", name, ErrSyntax, MaxBytes)
	}
	number, begun, joined := 0, 0, ""
	for raw := range strings.Lines(string(text)) {
		number++
		if joined == "" {
			begun = number
		}
		line := strings.TrimRight(withoutComment(raw), " \t\r\n")
		if before, continues := strings.CutSuffix(line, `\`); continues {
			joined += before
			continue
		}
		joined += line
		if err := r.line(Place{name, begun}, strings.TrimSpace(joined), depth); err != nil {
			return err
		}
		joined = ""
	}
	return r.line(Place{name, begun}, strings.TrimSpace(joined), depth)
}

// withoutComment cuts a line at its #, unless that is quoted by \.
func withoutComment(line string) string {
	for i := 0; i < len(line); i++ {
		if line[i] == '#' && (i == 0 || line[i-1] != '\\') {
			return line[:i]
		}
	}
	return line
}

func (r *reader) line(at Place, text string, depth int) error {
	if text == "" {
		return nil
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return fmt.Errorf("%s: %w: it is no text", at, ErrSyntax)
	}
	if word, rest, found := strings.Cut(text, " "); found && strings.EqualFold(word, "include") {
		if err := r.file(strings.TrimSpace(rest), depth+1); err != nil {
			return fmt.Errorf("%s: include: %w", at, err)
		}
		return nil
	}
	if len(r.lines) >= maxLines {
		return fmt.Errorf("%s: %w: more than %d lines", at, ErrSyntax, maxLines)
	}
	settings, err := settingsOf(text)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", at, ErrSyntax, err)
	}
	r.lines = append(r.lines, Line{at, settings})
	return nil
}

// settingsOf splits a line into its Key=Value, of which a value may be in double quotes.
func settingsOf(text string) (settings []Setting, err error) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		key, rest, found := strings.Cut(text, "=")
		key = strings.TrimRight(key, " \t+-") // += and -= say the same of a first value
		if !found || key == "" || strings.ContainsAny(key, " \t\"") {
			word, _, _ := strings.Cut(text, " ")
			return nil, fmt.Errorf("%.80q is no Key=Value", word)
		}
		var value string
		if rest = strings.TrimLeft(rest, " \t"); strings.HasPrefix(rest, `"`) {
			if value, text, found = strings.Cut(rest[1:], `"`); !found {
				return nil, fmt.Errorf("the quotation mark of %.80s is not closed", key)
			}
		} else if end := strings.IndexAny(rest, " \t"); end >= 0 {
			value, text = rest[:end], rest[end:]
		} else {
			value, text = rest, ""
		}
		settings = append(settings, Setting{key, strings.ReplaceAll(value, `\#`, "#")})
	}
	return settings, nil
}
