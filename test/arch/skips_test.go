package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	skip = regexp.MustCompile(`\b[tb]\.Skip(?:f|Now)?\(("(?:[^"\\]|\\.)*")?`)
	// What is missing, and why that matters; or the words of a child's own skip.
	saysWhy = regexp.MustCompile(`^"(needs .+|left out with -short: .+|%s)"$`)
)

// TestSkipsSayWhy: a test that is left out says what it needs, so that whoever
// reads the log can give it that.
func TestSkipsSayWhy(t *testing.T) {
	root, found := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || entry.Name() == "skips_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, match := range skip.FindAllSubmatch(text, -1) {
			found++
			if !saysWhy.Match(match[1]) {
				t.Errorf("%s: %s: begin with \"needs …: why\" or \"left out with -short: why\"", path, match[0])
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Fatalf("%d skips found: %v", found, err)
	}
}
