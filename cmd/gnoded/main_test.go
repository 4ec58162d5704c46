package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHelpNamesEveryKey reads the keys out of the source of the configuration
// and looks each up in the help, which is their only list for operators.
func TestHelpNamesEveryKey(t *testing.T) {
	source, err := os.ReadFile("../../noded/config.go")
	if err != nil {
		t.Fatal(err)
	}
	var help bytes.Buffer
	a := app()
	a.Writer = &help
	if err := a.Run([]string{"gnoded", "--help"}); err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile("`toml:\"([a-z_]+)\"`").FindAllSubmatch(source, -1)
	if len(keys) < 15 {
		t.Fatalf("found %d keys in the source", len(keys))
	}
	for _, key := range keys {
		if !strings.Contains(help.String(), string(key[1])) {
			t.Errorf("--help does not name the key %q", key[1])
		}
	}
	for _, word := range []string{"stop-jobs", "Examples:", "--config", "--version"} {
		if !strings.Contains(help.String(), word) {
			t.Errorf("--help does not say %q", word)
		}
	}
}

func TestRefusals(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.toml")
	if err := os.WriteFile(bad, []byte("cpu = 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"bogus"}, `unknown command "bogus"`},
		{[]string{"--config", bad}, bad + `:1:1: unknown key "cpu"`},
		{[]string{"stop-jobs", "--config", bad}, `unknown key "cpu"`},
		{[]string{"--config", "/no/such/file"}, "no such file"},
		{[]string{"shim"}, "not by hand"},
	} {
		err := app().Run(append([]string{"gnoded"}, c.arguments...))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("gnoded %s: %v, want %q", strings.Join(c.arguments, " "), err, c.want)
		}
	}
}
