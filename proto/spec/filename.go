package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// noTask is what Slurm writes for %a of a job that is no array: its NO_VAL.
const noTask = 1<<32 - 2

// maxPadding is the widest zero padding, as in sbatch(1).
const maxPadding = 10

// FileNames are the values of the symbols in a file name pattern.
type FileNames struct {
	JobID      uint32 // the job's own number, also for an array task
	ArrayJobID uint32
	ArrayTask  uint32
	IsArray    bool
	JobName    string
	User       string
	Node       string // name of the node; cut at its first dot
	NodeIndex  uint32 // position of the node in the job
	Task       uint32 // rank
	Step       uint32
	InStep     bool // of a step; otherwise of the batch script
}

// ExpandFileName replaces the symbols of sbatch(1) and srun(1), "filename
// pattern": %A array job, %a array task, %J job and step, %j job, %N node, %n
// node index, %s step, %t rank, %u user, %x job name, %% itself; a number
// before the letter pads numbers with zeros up to that width. An unknown symbol
// stays as it is. A backslash anywhere switches expansion off: then
// backslashes are taken out and the rest is left alone.
func ExpandFileName(pattern string, v FileNames) (string, error) {
	if strings.IndexByte(pattern, 0) >= 0 {
		return "", fmt.Errorf("file name %q holds a zero byte", shorten(pattern))
	}
	if len(pattern) > MaxPathBytes {
		return "", errLongFileName(pattern)
	}
	if strings.IndexByte(pattern, '\\') >= 0 {
		return withoutBackslashes(pattern), nil
	}
	var out strings.Builder
	for rest := pattern; rest != ""; {
		text, symbol, found := strings.Cut(rest, "%")
		out.WriteString(text)
		if !found {
			break
		}
		width := 0
		for width < len(symbol) && isDigit(symbol[width]) {
			width++
		}
		if value, known := v.symbol(symbol, width); known {
			out.WriteString(value)
			rest = symbol[width+1:]
		} else {
			out.WriteByte('%')
			rest = symbol
		}
		if out.Len() > MaxPathBytes {
			return "", errLongFileName(pattern)
		}
	}
	if out.Len() >= MaxPathBytes {
		return "", errLongFileName(pattern)
	}
	return out.String(), nil
}

func errLongFileName(pattern string) error {
	return fmt.Errorf("file name %q is longer than %d bytes: choose a shorter one", shorten(pattern), MaxPathBytes-1)
}

// symbol is the value of the letter that follows digits digits in s.
func (v FileNames) symbol(s string, digits int) (string, bool) {
	if digits == len(s) {
		return "", false
	}
	number := func(n uint32) (string, bool) {
		width, err := strconv.Atoi("0" + s[:digits])
		if err != nil || width > maxPadding {
			width = maxPadding
		}
		return padded(int64(n), width), true
	}
	switch s[digits] {
	case 'A':
		if v.IsArray {
			return number(v.ArrayJobID)
		}
		return number(v.JobID)
	case 'a':
		if v.IsArray {
			return number(v.ArrayTask)
		}
		return number(noTask)
	case 'J':
		job, _ := number(v.JobID)
		if v.InStep {
			job += "." + strconv.FormatUint(uint64(v.Step), 10)
		}
		return job, true
	case 'j':
		return number(v.JobID)
	case 'n':
		return number(v.NodeIndex)
	case 't':
		return number(v.Task)
	case 's':
		if v.InStep {
			return number(v.Step)
		}
		return "batch", true
	case 'N':
		short, _, _ := strings.Cut(v.Node, ".")
		return short, true
	case 'u':
		return v.User, true
	case 'x':
		return strings.ReplaceAll(v.JobName, "/", "_"), true // a file, not a folder
	case '%':
		return "%", digits == 0
	}
	return "", false
}

// withoutBackslashes takes out each backslash that is not behind another one.
func withoutBackslashes(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			if i++; i == len(s) || s[i] != '\\' {
				i--
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
