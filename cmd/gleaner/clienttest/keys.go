package clienttest

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Keys checks that records have all keys of a file, each with one of its types: a line is a
// path, with [] for what is in a list, and "string", "integer", "real", "bool", "array",
// "object", "null" or "{number}", which is {set, infinite, number}. The files are what Slurm
// itself printed (v0.0.43). Records may have more keys.
func Keys(t *testing.T, path string, records ...any) {
	t.Helper()
	seen := map[string]map[string]bool{}
	for _, record := range records {
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		root, err := readValue(decoder)
		if err != nil {
			t.Fatal(err)
		}
		root.keyTypes("", seen)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		key, types, _ := strings.Cut(lines.Text(), " ")
		got := slices.Sorted(maps.Keys(seen[key]))
		if len(got) == 0 {
			t.Errorf("%s: no record has %s (%s)", path, key, types)
		}
		for _, one := range got {
			if !slices.Contains(strings.Split(types, "|"), one) && (one != "integer" || types != "real") {
				t.Errorf("%s: %s is %s and not %s", path, key, one, types)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// keyTypes notes the type of everything in a value by its path.
func (v *value) keyTypes(path string, seen map[string]map[string]bool) {
	kind := v.kind
	switch {
	case slices.Equal(v.keys, []string{"set", "infinite", "number"}):
		kind = "{number}"
	case kind == "number" && strings.ContainsAny(v.text, ".eE"):
		kind = "real"
	case kind == "number":
		kind = "integer"
	case kind == "object" && len(v.keys) > 0:
		for i, kid := range v.kids {
			kid.keyTypes(strings.TrimPrefix(path+"."+v.keys[i], "."), seen)
		}
		return
	case kind == "array":
		for _, kid := range v.kids {
			kid.keyTypes(path+"[]", seen)
		}
	}
	if seen[path] == nil {
		seen[path] = map[string]bool{}
	}
	seen[path][kind] = true
}
