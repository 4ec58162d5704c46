package format

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Values come from users. A name with an escape sequence in it must not reach a
// terminal, and one with a newline must not look like two rows.

// shown is what is printed in place of a character.
func shown(r rune) rune {
	if !unicode.IsPrint(r) || r == utf8.RuneError {
		return '?'
	}
	return r
}

// columnsOf is how many columns of a terminal a character takes that is shown: two if
// it is a wide one of East Asia or an emoji, none if it stands on the one before it.
func columnsOf(r rune) int {
	switch {
	case r <= unicode.MaxASCII:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Columns is how many columns of a terminal text takes as Printable has it.
func Columns(text string) int {
	if isPlain(text) {
		return len(text)
	}
	sum := 0
	for _, r := range text {
		sum += columnsOf(shown(r))
	}
	return sum
}

// Cut is the beginning of text that fits into so many columns.
func Cut(text string, room int) string {
	text, _ = cut(text, room)
	return text
}

// cut is the beginning of text that fits into so many columns, and how many it takes.
func cut(text string, room int) (string, int) {
	room = max(room, 0)
	if isPlain(text) {
		fits := min(room, len(text))
		return text[:fits], fits
	}
	used := 0
	for i, r := range text {
		more := columnsOf(shown(r))
		if used+more > room {
			return text[:i], used
		}
		used += more
	}
	return text, used
}

func appendBlanks(dst []byte, n int) []byte {
	for ; n > 0; n-- {
		dst = append(dst, ' ')
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
	wide, used := max(width, -width), Columns(text)
	more := used > wide
	if more {
		text, used = cut(text, wide-1)
		used++
	}
	if width > 0 {
		dst = appendBlanks(dst, wide-used)
	}
	dst = AppendPrintable(dst, text)
	if more {
		dst = append(dst, '+')
	}
	if width < 0 {
		dst = appendBlanks(dst, wide-used)
	}
	return dst
}

// AppendPrintable appends text as Printable has it.
func AppendPrintable(dst []byte, text string) []byte {
	if isPlain(text) {
		return append(dst, text...)
	}
	for _, r := range text {
		dst = utf8.AppendRune(dst, shown(r))
	}
	return dst
}

// Printable returns text with everything that a terminal might obey, or that
// would break a line, replaced by a question mark.
func Printable(text string) string {
	if isPlain(text) {
		return text
	}
	return string(AppendPrintable(nil, text))
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
