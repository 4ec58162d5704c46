package console

import "strings"

// Quoted is a text as one word of a shell. For a quote inside, it ends the
// quoting, writes an escaped quote, and begins the quoting again. All three
// shells read that alike.
func Quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
