// Package safejson makes JSON safe to show.
//
// Contract: Escaped changes how characters are written in JSON and never what
// it says. encoding/json writes control characters above 0x7f, and those that
// turn the direction of a line, as they are; a terminal might obey them.
package safejson

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escaped is JSON in one line without what a terminal might obey. All of that
// is in strings, where an escape means the same (RFC 8259, section 7).
func Escaped(text []byte) []byte {
	if !bytes.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	safe := make([]byte, 0, len(text)+64)
	for _, r := range string(text) {
		switch high, low := utf16.EncodeRune(r); {
		case unicode.IsPrint(r):
			safe = utf8.AppendRune(safe, r)
		case r > 0xffff:
			safe = fmt.Appendf(safe, `\u%04x\u%04x`, high, low)
		default:
			safe = fmt.Appendf(safe, `\u%04x`, r)
		}
	}
	return safe
}
