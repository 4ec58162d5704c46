package scenario

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryStoryIsListed: README.md has one line for each story, and none for
// a story that is not there.
func TestEveryStoryIsListed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| \\S.*\\|$").FindAllSubmatch(text, -1) {
		listed = append(listed, string(row[1]))
	}
	var stories []string
	for _, file := range files {
		stories = append(stories, strings.TrimSuffix(filepath.Base(file), ".txtar"))
	}
	for _, story := range stories {
		if !slices.Contains(listed, story) {
			t.Errorf("README.md does not list the story %s: add a line \"| `%s` | what it shows |\"", story, story)
		}
	}
	for i, name := range listed {
		if !slices.Contains(stories, name) {
			t.Errorf("README.md lists the story %s, which is not in testdata", name)
		}
		if slices.Contains(listed[:i], name) {
			t.Errorf("README.md lists the story %s twice", name)
		}
	}
}
