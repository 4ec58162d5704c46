package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// directivePrefixes begin the lines of a script that hold options.
var directivePrefixes = []string{"#GSUB", "#SBATCH"}

// maxDirectiveBytes bounds one such line; what is longer is a mistake.
const maxDirectiveBytes = 64 << 10

// ErrQuote is returned for a directive whose quotes are not closed.
var ErrQuote = errors.New("a quote is not closed")

// scriptOptions reads the options in a batch script: those on its #GSUB and
// #SBATCH lines up to the first line that is neither empty nor a comment.
// Errors name the line.
func scriptOptions(command *option.Command, script []byte) (option.Values, error) {
	var settings []option.Setting
	number := 0
	for line := range bytes.Lines(script) {
		number++
		text := strings.TrimRight(string(line), "\r\n")
		prefix, rest, found := directive(text)
		if !found {
			if isCommand(text) {
				break
			}
			continue
		}
		if len(text) > maxDirectiveBytes {
			return nil, option.Fail(command.UsageStatus, "line %d of the script: %s with more than %d bytes", number, prefix, maxDirectiveBytes)
		}
		words, err := splitWords(rest)
		if err != nil {
			return nil, option.Fail(1, "line %d of the script: %s: %w", number, prefix, err)
		}
		given, err := command.NormaliseScript(words)
		if err != nil {
			return nil, directiveError(command, number, prefix, err)
		}
		settings = append(settings, given...)
	}
	return option.Collect(settings), nil
}

func directiveError(command *option.Command, number int, prefix string, err error) error {
	status := 1
	if usage := (*option.UsageError)(nil); errors.As(err, &usage) {
		status = command.UsageStatus
	}
	return option.Fail(status, "line %d of the script: %s: %w", number, prefix, err)
}

// directive cuts the prefix off a line that holds options. The prefix must
// stand at the very beginning and be a word of its own.
func directive(line string) (prefix, rest string, found bool) {
	for _, prefix := range directivePrefixes {
		rest, cut := strings.CutPrefix(line, prefix)
		if cut && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
			return prefix, rest, true
		}
	}
	return "", "", false
}

// isCommand says whether a line ends the search for options.
func isCommand(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '#'
}

// splitWords cuts a directive into words as sbatch does: at blanks, but not
// inside '…' and "…"; a backslash keeps the next letter as it is (inside "…"
// only a quote and a backslash, inside '…' nothing); # at the beginning of a
// word starts a comment.
func splitWords(line string) ([]string, error) {
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
