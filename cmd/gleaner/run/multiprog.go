package run

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// programs are those of the tasks of a step, as a file of srun's --multi-prog lists
// them; nil = all tasks run the same.
type programs []programLine

// programLine is one line: which tasks run what.
type programLine struct {
	ranks rankSet
	argv  []string
}

// rankSet are ranges of ranks, in the order in which they were written.
type rankSet []rankRange

type rankRange struct{ first, last uint32 }

const (
	// maxPrograms bounds the file.
	maxPrograms = 1 << 20
	everyTask   = grant.MaxStepTasks
)

// readPrograms reads the file that is named in the place of a program.
func readPrograms(inv *option.Invocation) (programs, error) {
	if !inv.Given(optMultiProg) {
		return nil, nil
	}
	path := inv.Operands[0]
	info, err := os.Stat(path)
	if err == nil && (info.IsDir() || info.Size() > maxPrograms) {
		err = fmt.Errorf("it is no file of at most %d bytes", maxPrograms)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, option.Fail(1, "Unable to read the configuration file %s of --%s: %w", path, optMultiProg, console.Reason(err))
	}
	lines, err := parsePrograms(string(data))
	if err != nil {
		return nil, option.Fail(1, "%s: %w", path, err)
	}
	return lines, nil
}

// parsePrograms reads lines such as "4-6 echo task:%t". A backslash joins a line and the
// next.
func parsePrograms(text string) (programs, error) {
	var lines programs
	joined := ""
	for number, line := range strings.Split(text, "\n") {
		if head, joins := strings.CutSuffix(line, `\`); joins {
			joined += head + " "
			continue
		}
		line, joined = strings.TrimSpace(joined+line), ""
		if line == "" || line[0] == '#' {
			continue
		}
		words, err := splitWords(line)
		if err == nil && len(words) < 2 {
			err = fmt.Errorf("%.64q names no program", line)
		}
		var ranks rankSet
		if err == nil {
			ranks, err = parseRanks(words[0])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
		lines = append(lines, programLine{ranks, words[1:]})
	}
	if joined != "" || len(lines) == 0 {
		return nil, fmt.Errorf("it lists no programs, or ends within a line: type lines such as: 0-3 ./program")
	}
	return lines, nil
}

// splitWords splits a line at blanks outside of quotes, as a shell does.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case quote != '\'' && r == '\\':
			escaped, inWord = true, true
		case quote == r && quote != 0:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inWord = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%.64q ends within quotes", line)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// parseRanks reads "0,4-6" or "*".
func parseRanks(text string) (rankSet, error) {
	if text == "*" {
		return rankSet{{0, everyTask}}, nil
	}
	var set rankSet
	for word := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(word, "-")
		first, err := strconv.ParseUint(low, 10, 32)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(high, 10, 32)
		}
		if err != nil || last < first || last > everyTask {
			return nil, fmt.Errorf("%.64q is no list of tasks such as 0,4-6 or *", text)
		}
		set = append(set, rankRange{uint32(first), uint32(last)})
	}
	return set, nil
}

// offset is the place of a rank in a set; -1 = it is not there.
func (set rankSet) offset(rank uint32) int {
	before := 0
	for _, r := range set {
		if rank >= r.first && rank <= r.last {
			return before + int(rank-r.first)
		}
		before += int(r.last-r.first) + 1
	}
	return -1
}

// ofTask is what a task runs; the first line that names it counts. In arguments %t is
// its rank, and %o its place among the tasks of the line.
func (lines programs) ofTask(rank uint32) (step.Strings, error) {
	if lines == nil {
		return nil, nil
	}
	for _, line := range lines {
		offset := line.ranks.offset(rank)
		if offset < 0 {
			continue
		}
		names := strings.NewReplacer("%%", "%", "%t", strconv.FormatUint(uint64(rank), 10), "%o", strconv.Itoa(offset))
		argv := step.Strings{line.argv[0]}
		for _, argument := range line.argv[1:] {
			argv = append(argv, names.Replace(argument))
		}
		return argv, nil
	}
	return nil, option.Fail(1, "the configuration file of --%s has no program for task %d: add a line for it, or one that begins with *", optMultiProg, rank)
}
