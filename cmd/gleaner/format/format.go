// Package format prints tables the way squeue and sinfo do: a format string
// such as "%.18i %.9P %R" (-o), or a list of names such as
// "JobID,Name:12,State:.8|" (-O), chooses the columns of a table.
//
// It promises that a row costs one pass over its columns and no table is ever
// held in memory; that a column of width w is w characters wide, filled with
// blanks or cut at w as Slurm cuts; and that no value can break a line or
// reach the terminal as a control sequence: what cannot be printed becomes a
// question mark. It knows nothing of jobs or nodes: the caller describes its
// rows by a Table of Fields. A Table and a Layout are safe for use by several
// goroutines once made.
package format

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Limits of a format string: far above anything that is typed, low enough
// that a hostile one costs nothing.
const (
	MaxSpecBytes = 64 << 10
	MaxColumns   = 1024
	MaxWidth     = 4096
)

// LongWidth is the width of a -O column that names none (squeue(1)).
const LongWidth = 20

var (
	// ErrUnknownField is returned when a format names a field that the table
	// does not have.
	ErrUnknownField = errors.New("invalid field")
	// ErrBadFormat is returned when a format is too long or a width too large.
	ErrBadFormat = errors.New("invalid format")
)

// Field is one thing that can be shown of a row of type R.
type Field[R any] struct {
	Letter  byte               // of -o and of sorting; 0 = it has none
	Names   []string           // of -O, in any case; the first is the usual one
	Header  string             // the text above the column
	Value   func(row R) string // "" prints as blanks
	Compare func(a, b R) int   // for sorting; nil = by the text of Value
	Mark    func(row R) string // put at the end of the value, and never cut off
	Whole   bool               // the value is never cut: it is filled to a column's width only
}

// Table is the set of fields that a kind of row has.
type Table[R any] struct {
	fields   []Field[R]
	byLetter map[byte]int
	byName   map[string]int
}

// NewTable makes a table. Two fields with one letter or one name are an error
// of the program, and panic.
func NewTable[R any](fields []Field[R]) *Table[R] {
	t := &Table[R]{fields: fields, byLetter: map[byte]int{}, byName: map[string]int{}}
	for i, f := range fields {
		if f.Letter != 0 {
			if _, taken := t.byLetter[f.Letter]; taken {
				panic(fmt.Sprintf("format: two fields have the letter %q", f.Letter))
			}
			t.byLetter[f.Letter] = i
		}
		for _, name := range f.Names {
			key := strings.ToLower(name)
			if _, taken := t.byName[key]; taken {
				panic(fmt.Sprintf("format: two fields have the name %q", name))
			}
			t.byName[key] = i
		}
	}
	return t
}

// Names lists the names of -O in the order of the table, one for each field.
func (t *Table[R]) Names() []string {
	var names []string
	for _, f := range t.fields {
		if len(f.Names) > 0 {
			names = append(names, f.Names[0])
		}
	}
	return names
}

// Letters lists the letters of -o in the order of the table.
func (t *Table[R]) Letters() string {
	var letters []byte
	for _, f := range t.fields {
		if f.Letter != 0 {
			letters = append(letters, f.Letter)
		}
	}
	return string(letters)
}

// Legend is, for each field in the order of the table, what -O and -o call it:
// "JobArrayID (%i)", or only one of the two.
func (t *Table[R]) Legend() []string {
	var legend []string
	for _, f := range t.fields {
		switch {
		case len(f.Names) == 0:
			legend = append(legend, "%"+string(f.Letter))
		case f.Letter == 0:
			legend = append(legend, f.Names[0])
		default:
			legend = append(legend, f.Names[0]+" (%"+string(f.Letter)+")")
		}
	}
	return legend
}

// compare orders two rows by the field.
func (f *Field[R]) compare(a, b R) int {
	if f.Compare != nil {
		return f.Compare(a, b)
	}
	return cmp.Compare(f.Value(a), f.Value(b))
}

// Field is the field with this name of -O.
func (t *Table[R]) Field(name string) (Field[R], bool) {
	index, ok := t.byName[strings.ToLower(name)]
	if !ok {
		return Field[R]{}, false
	}
	return t.fields[index], true
}

// Text is the whole value of a row with its mark, neither cut nor filled.
func (f *Field[R]) Text(row R) string { return f.Value(row) + f.mark(row) }
