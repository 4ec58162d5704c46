package jobspec

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// directivePrefixes begin the lines of a script that hold options.
var directivePrefixes = []string{"#GSUB", "#SBATCH"}

// maxDirectiveBytes bounds one such line; what is longer is a mistake.
const maxDirectiveBytes = 64 << 10

// maxScriptWarnings bounds what is said of one script.
const maxScriptWarnings = 5

// directiveLine is one line of a script that holds options.
type directiveLine struct {
	number   int // from 1
	settings []option.Setting
}

// directives are the options in a script, and what to tell its author.
type directives struct {
	name     string // of the script, for messages
	lines    []directiveLine
	foreign  string // place of the first option for another scheduler, "" = there is none
	warnings []string
}

// values are the options of all lines.
func (d *directives) values() option.Values {
	var settings []option.Setting
	for _, line := range d.lines {
		settings = append(settings, line.settings...)
	}
	return option.Collect(settings)
}

// scriptDirectives reads the options in a batch script: those on its #GSUB and
// #SBATCH lines up to the first line that is neither empty nor a comment. Of
// those below, which sbatch passes over in silence, it warns; but only up to
// the #! of a further script that this one writes. Errors and warnings name
// the line and the script, by its name.
func scriptDirectives(command *option.Command, script []byte, name string) (*directives, error) {
	found := &directives{name: cmp.Or(name, "the script")}
	var late []int // numbers of lines below the first command
	number, commands := 0, false
	for line := range bytes.Lines(script) {
		number++
		if commands && line[0] != '#' {
			continue
		}
		text := strings.TrimRight(string(line), "\r\n")
		prefix, rest, is := directive(text)
		switch {
		case commands && is:
			late = append(late, number)
		case commands && strings.HasPrefix(text, "#!"):
			found.warnLate(late)
			return found, nil
		case commands:
		case is && isHeterogeneous(rest):
			return nil, found.failed(command, number, prefix, errHeterogeneous)
		case is:
			settings, err := directiveSettings(command, prefix, rest)
			if err != nil {
				return nil, found.failed(command, number, prefix, err)
			}
			found.lines = append(found.lines, directiveLine{number, settings})
		case isCommand(text):
			commands = true
		case found.foreign == "" && isForeign(text):
			found.foreign = found.place(number)
		default:
			found.warnMisspelled(number, text)
		}
	}
	found.warnLate(late)
	return found, nil
}

func directiveSettings(command *option.Command, prefix, rest string) ([]option.Setting, error) {
	if len(rest) > maxDirectiveBytes {
		return nil, option.Fail(command.UsageStatus, "more than %d bytes", maxDirectiveBytes)
	}
	words, err := option.SplitWords(rest)
	if err != nil {
		return nil, err
	}
	return command.NormaliseScript(words)
}

// failed is an error in a directive.
func (d *directives) failed(command *option.Command, number int, prefix string, err error) error {
	status, usage, failure := 1, (*option.UsageError)(nil), (*option.Failure)(nil)
	switch {
	case errors.As(err, &usage):
		status = command.UsageStatus
	case errors.As(err, &failure):
		status = failure.Status
	}
	return option.Fail(status, "%s: %s: %w", d.place(number), prefix, err)
}

// place names a line: "line 3 of train.sh".
func (d *directives) place(number int) string {
	return fmt.Sprintf("line %d of %.256s", number, d.name)
}

func (d *directives) warn(format string, args ...any) {
	if len(d.warnings) < maxScriptWarnings {
		d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
	}
}

func (d *directives) warnLate(late []int) {
	switch len(late) {
	case 0:
	case 1:
		d.warn("%s is not read: options must come before the first command", d.place(late[0]))
	default:
		d.warn("%s and %d more are not read: options must come before the first command", d.place(late[0]), len(late)-1)
	}
}

// warnMisspelled warns of a comment that was probably meant to be a directive:
// "#sbatch -n4" or "#SBATCH-n4".
func (d *directives) warnMisspelled(number int, line string) {
	for _, prefix := range directivePrefixes {
		if len(line) < len(prefix) || !strings.EqualFold(line[:len(prefix)], prefix) {
			continue
		}
		if rest := strings.TrimLeft(line[len(prefix):], " \t:"); strings.HasPrefix(rest, "-") {
			d.warn("%s is a comment: begin it with %q and a blank to give options", d.place(number), prefix)
		}
		return
	}
}

// directive cuts the prefix off a line that holds options. The prefix must be
// at the very beginning and be a word of its own.
func directive(line string) (prefix, rest string, found bool) {
	for _, prefix := range directivePrefixes {
		rest, cut := strings.CutPrefix(line, prefix)
		if cut && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
			return prefix, rest, true
		}
	}
	return "", "", false
}

// isForeign reports whether a line holds options for PBS or LSF. sbatch reads some of them,
// and what it does not know changes the job without a word.
func isForeign(line string) bool {
	return strings.HasPrefix(line, "#PBS -") || strings.HasPrefix(line, "#BSUB -")
}

// isCommand reports whether a line ends the search for options.
func isCommand(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '#'
}
