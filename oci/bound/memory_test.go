package bound

import (
	"strings"
	"testing"
)

// TestMemoryExplained: what a process says that reached the bound is one line.
func TestMemoryExplained(t *testing.T) {
	for said, is := range map[string]bool{
		"fatal error: out of memory allocating heap arena metadata\n\nruntime stack:": true,
		"runtime: cannot allocate memory\nfatal error: runtime: out of memory\n":      true,
		"fatal error: all goroutines are asleep - deadlock!":                          false, "a.sif: no such file": false, "": false,
	} {
		if got := Explain(said); strings.Contains(got, "more memory than") != is || !is && got != said {
			t.Errorf("%q: %q", said, got)
		}
	}
}
