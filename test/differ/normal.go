package main

import (
	"fmt"
	"regexp"
	"strings"
)

// plain are what two runs may say differently without a meaning: each is replaced.
var plain = []struct {
	form *regexp.Regexp
	word string
}{
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b1[789]\d{8}\b`), "EPOCH"},
	{regexp.MustCompile(`\b(00:00:0\d|0:0\d)\b`), "SHORT"},
	{regexp.MustCompile(`(?m)[ \t]+$`), ""},
	{regexp.MustCompile(`\n{2,}`), "\n"},
}

// normal is what was said, with the numbers of jobs counted from 1, times and places
// replaced. Numbers of the jobs of other rows stay as they are.
func normal(said string, jobs []string, places map[string]string) string {
	for place, word := range places {
		said = strings.ReplaceAll(said, place, word)
	}
	for i, job := range jobs {
		said = regexp.MustCompile(`\b0*`+job+`(\b|_)`).ReplaceAllString(said, fmt.Sprintf("JOB%d$1", i+1))
		// A word may go before a number, in the name of a file.
		said = regexp.MustCompile(`([A-Za-z_])0*`+job+`\b`).ReplaceAllString(said, fmt.Sprintf("${1}JOB%d", i+1))
	}
	for _, p := range plain {
		said = p.form.ReplaceAllString(said, p.word)
	}
	return said
}
