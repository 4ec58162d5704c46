package spec

import (
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestRefusalsSayWhy: what has the right form and is too large is told so, and
// a letter is quoted as it was typed.
func TestRefusalsSayWhy(t *testing.T) {
	parse := map[string]func(string) error{
		"time":  func(s string) error { _, err := ParseTime(s); return err },
		"array": func(s string) error { _, err := ParseArray(s); return err },
		"hosts": func(s string) error { _, err := ParseHostList(s); return err },
		"gpus":  func(s string) error { _, err := ParseGPUs(s, pb.GpuScope_GPU_SCOPE_JOB); return err },
	}
	for input, want := range map[string]string{
		"time 4294967296":             "too long",
		"time 71582789":               "too long",
		"time 18446744073709551616-0": "too long",
		"time 1-1-1":                  "invalid time",
		"time ":                       "invalid time",
		"array 1-4294967296":          "too high: the highest index is 4000000",
		"array 18446744073709551616":  "too high: the highest index is 4000000",
		"array 4000001":               "index 4000001 is too high",
		"array -5":                    "not an index or a range",
		"hosts nä":                    "the character 'ä'",
		"hosts n\xff":                 "the character '\ufffd'",
		"gpus a100:1,h100:1":          "a job gets GPUs of one model",
	} {
		what, text, _ := strings.Cut(input, " ")
		if err := parse[what](text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", input, err, want)
		}
	}
}
