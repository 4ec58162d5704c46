package format

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Layout is a parsed format: the columns of one kind of output.
type Layout[R any] struct {
	prefix  string
	columns []column[R]
}

// column is one field with its shape.
type column[R any] struct {
	field  *Field[R]
	width  int  // characters; 0 = as wide as the value
	right  bool // blanks before the value
	fit    bool // width comes from Fit
	suffix string
}

func (l *Layout[R]) add(c column[R]) error {
	if len(l.columns) == MaxColumns {
		return fmt.Errorf("%w: more than %d columns", ErrBadFormat, MaxColumns)
	}
	l.columns = append(l.columns, c)
	return nil
}

// Fit gives every column asked for with # the width of its widest value, or of
// its header. Without it such a column is as wide as each value.
func (l *Layout[R]) Fit(rows []R) {
	for i := range l.columns {
		c := &l.columns[i]
		if !c.fit {
			continue
		}
		c.width = utf8.RuneCountInString(c.field.Header)
		for _, row := range rows {
			c.width = max(c.width, utf8.RuneCountInString(c.field.Text(row)))
		}
		c.width = min(c.width, MaxWidth)
	}
}

// Has reports whether the field with this first name is shown. Callers that
// group rows group by what is shown.
func (l *Layout[R]) Has(name string) bool {
	for _, c := range l.columns {
		if len(c.field.Names) > 0 && c.field.Names[0] == name {
			return true
		}
	}
	return false
}

// Header appends the line of headers, with its newline, to dst.
func (l *Layout[R]) Header(dst []byte) []byte {
	dst = append(dst, l.prefix...)
	for _, c := range l.columns {
		dst = c.cell(dst, c.field.Header, "", false)
	}
	return append(dst, '\n')
}

// Row appends one line, with its newline, to dst.
func (l *Layout[R]) Row(dst []byte, row R) []byte {
	dst = append(dst, l.prefix...)
	for _, c := range l.columns {
		dst = c.cell(dst, c.field.Value(row), c.field.mark(row), c.field.Whole)
	}
	return append(dst, '\n')
}

func (f *Field[R]) mark(row R) string {
	if f.Mark == nil {
		return ""
	}
	return f.Mark(row)
}

// cell appends one value, cut or filled to the column's width. A mark is at the
// end of the value whether or not the value was cut.
func (c *column[R]) cell(dst []byte, text, mark string, whole bool) []byte {
	room := -1
	if c.width > 0 && !whole {
		room = max(c.width-utf8.RuneCountInString(mark), 0)
	}
	length := utf8.RuneCountInString(text)
	if room >= 0 {
		length = min(length, room)
	}
	blanks := c.width - length - utf8.RuneCountInString(mark)
	if c.right {
		dst = appendBlanks(dst, blanks)
	}
	dst = appendPrintable(dst, text, length)
	dst = append(dst, mark...)
	if !c.right {
		dst = appendBlanks(dst, blanks)
	}
	return append(dst, c.suffix...)
}

func appendBlanks(dst []byte, n int) []byte {
	for ; n > 0; n-- {
		dst = append(dst, ' ')
	}
	return dst
}

// appendPrintable appends the first n characters of text. Values come from
// users; a name with an escape sequence in it must not reach a terminal, and
// one with a newline must not look like two rows.
func appendPrintable(dst []byte, text string, n int) []byte {
	if isPlain(text) {
		return append(dst, text[:min(n, len(text))]...)
	}
	for _, r := range text {
		if n--; n < 0 {
			break
		}
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			r = '?'
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// isPlain reports whether text is all ASCII that can be printed, as nearly all is.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// AppendCell appends text as Printable has it, in a width: filled with blanks before it, or
// after it if width is less than 0. What does not fit ends in a plus.
func AppendCell(dst []byte, text string, width int) []byte {
	wide, length := max(width, -width), utf8.RuneCountInString(text)
	if length > wide {
		return append(appendPrintable(dst, text, wide-1), '+')
	}
	if width > 0 {
		dst = appendBlanks(dst, wide-length)
	}
	dst = appendPrintable(dst, text, length)
	if width < 0 {
		dst = appendBlanks(dst, wide-length)
	}
	return dst
}

// AppendPrintable appends text as Printable has it.
func AppendPrintable(dst []byte, text string) []byte { return appendPrintable(dst, text, len(text)) }

// Printable returns text with everything that a terminal might obey, or that
// would break a line, replaced by a question mark.
func Printable(text string) string {
	if isPlain(text) {
		return text
	}
	return string(appendPrintable(nil, text, len(text)))
}

// PrintableLines is Printable that keeps line breaks: for messages, which may
// have several lines and quote what a stranger wrote.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}
