package option

import (
	"slices"
	"strings"
	"testing"
)

// FuzzSplitWords: words quoted again are read as the same words.
func FuzzSplitWords(f *testing.F) {
	for _, seed := range []string{`-o "a b" 'c'`, `a\ b # c`, `"\"\\"x`, `''`, "\\", "\t#"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := SplitWords(line)
		if err != nil {
			return
		}
		var quoted []string
		for _, word := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
		}
		again, err := SplitWords(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(again, words) {
			t.Fatalf("%q: %q, quoted and read again %q, %v", line, words, again, err)
		}
	})
}
