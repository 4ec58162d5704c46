package bounds

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clip cuts text that came from elsewhere to a length in bytes, between
// characters.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Quoted is a name that may be anything, for a message.
func Quoted(name string) string { return fmt.Sprintf("%q", Clip(name, 64)) }

// ValidText reports whether text can be shown: printable, no line breaks.
func ValidText(text string) bool {
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// ValidName reports whether a name of a partition, an account and the like is one: letters,
// digits and -_. only.
func ValidName(name string) bool {
	if name == "" || len(name) > MaxNameBytes {
		return false
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.", c) >= 0) {
			return false
		}
	}
	return true
}
