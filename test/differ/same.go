package main

import (
	"regexp"
	"strings"
)

// remark is a line on standard error: a command's name goes before it.
var remark = regexp.MustCompile(`^s[a-z]+: `)

// same reports whether Gleaner answers as Slurm does. An error may go on with what
// to type instead, behind a colon, and there may be more remarks than Slurm has.
func same(slurm, gleaner string) bool {
	wanted := strings.Split(slurm, "\n")
	for _, line := range strings.Split(gleaner, "\n") {
		switch {
		case len(wanted) > 0 && (line == wanted[0] || wanted[0] != "" && strings.HasPrefix(line, strings.TrimSuffix(wanted[0], ".")+": ")):
			wanted = wanted[1:]
		case remark.MatchString(line):
		default:
			return false
		}
	}
	return len(wanted) == 0
}
