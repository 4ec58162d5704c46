package format

import "fmt"

// Layout is a parsed format: the columns of one kind of output.
type Layout[R any] struct {
	prefix  string
	columns []column[R]
}

// column is one field with its shape.
type column[R any] struct {
	field  *Field[R]
	width  int  // columns of a terminal; 0 = as wide as the value
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
		c.width = Columns(c.field.Header)
		for _, row := range rows {
			c.width = max(c.width, Columns(c.field.Text(row)))
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
	room := Columns(text)
	if c.width > 0 && !whole {
		room = min(room, max(c.width-Columns(mark), 0))
	}
	text, used := cut(text, room)
	blanks := c.width - used - Columns(mark)
	if c.right {
		dst = appendBlanks(dst, blanks)
	}
	dst = AppendPrintable(dst, text)
	dst = append(dst, mark...)
	if !c.right {
		dst = appendBlanks(dst, blanks)
	}
	return append(dst, c.suffix...)
}
