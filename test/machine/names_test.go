package machine

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var namedTests = regexp.MustCompile(`^\^Test\(([\w|]+)\)\$(?:/.*)?$`)

// TestNamesAreThere: a pattern that names a test which was renamed runs nothing, and
// nobody misses it.
func TestNamesAreThere(t *testing.T) {
	named := 0
	for _, c := range cases {
		pattern := c.Arguments[len(c.Arguments)-1]
		names := namedTests.FindStringSubmatch(pattern)
		if names == nil {
			continue // stories, or all tests
		}
		text := sourcesOf(t, strings.TrimPrefix(c.Directory, "/src/"))
		for name := range strings.SplitSeq(names[1], "|") {
			named++
			if !strings.Contains(text, "\nfunc Test"+name+"(") {
				t.Errorf("%s has no Test%s", c.Name, name)
			}
		}
	}
	if named == 0 {
		t.Error("no case names a test")
	}
}

// sourcesOf is the text of all tests of a folder.
func sourcesOf(t *testing.T, folder string) string {
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests (%v)", folder, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
