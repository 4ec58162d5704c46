package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityPageNamesItsProofs: each protection of docs/security.md names at
// least one story or Go test, and each that it names exists.
func TestSecurityPageNamesItsProofs(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, protections, found := strings.Cut(string(page), "\n## Protections")
	if !found {
		t.Fatal("docs/security.md has no section \"Protections\"")
	}
	protections, _, _ = strings.Cut(protections, "\n## ")
	tests := testNames(t, root)
	row := regexp.MustCompile(`(?m)^\| (.+) \| (.*) \|$`)
	named := regexp.MustCompile("`([A-Za-z0-9_-]+)`")
	rows := 0
	for _, cells := range row.FindAllStringSubmatch(protections, -1) {
		if cells[1] == "protection" {
			continue
		}
		rows++
		proofs := named.FindAllStringSubmatch(cells[2], -1)
		if len(proofs) == 0 {
			t.Errorf("docs/security.md: %q names no test that proves it", cells[1])
		}
		for _, proof := range proofs {
			if !tests[proof[1]] {
				t.Errorf("docs/security.md: %q names %s, which is neither a story of test/scenario nor a Go test", cells[1], proof[1])
			}
		}
	}
	if rows == 0 {
		t.Error("docs/security.md lists no protection")
	}
}

// testNames are the names of all stories and Go tests.
func testNames(t *testing.T, root string) map[string]bool {
	names := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
			return filepath.SkipDir
		case strings.HasSuffix(path, ".txtar"):
			names[strings.TrimSuffix(entry.Name(), ".txtar")] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, found := range function.FindAllSubmatch(text, -1) {
				names[string(found[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
