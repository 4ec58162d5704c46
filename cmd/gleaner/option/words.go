package option

import (
	"errors"
	"fmt"
	"strings"
)

// ErrQuote is returned for a line whose quotes are not closed.
var ErrQuote = errors.New("a quote is not closed")

// SplitWords cuts a directive into words as sbatch does: at blanks, but not
// inside '…' and "…"; a backslash keeps the next letter as it is (inside "…"
// only a quote and a backslash, inside '…' nothing); # at the beginning of a
// word starts a comment.
func SplitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		letter := line[i]
		escapes := letter == '\\' && i+1 < len(line) &&
			(quote == 0 || quote == '"' && (line[i+1] == '"' || line[i+1] == '\\'))
		switch {
		case escapes:
			i++
			word.WriteByte(line[i])
			inWord = true
		case quote != 0 && letter == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(letter)
		case letter == '\'' || letter == '"':
			quote, inWord = letter, true
		case letter == ' ' || letter == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		case letter == '#' && !inWord:
			return words, nil
		default:
			word.WriteByte(letter)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("%w: %s", ErrQuote, strings.TrimSpace(line))
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
