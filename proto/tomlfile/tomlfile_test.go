package tomlfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

type shape struct {
	Name  string   `toml:"name"`
	Count int      `toml:"count"`
	List  []string `toml:"list"`
	Inner struct {
		Bind []string `toml:"bind"`
	} `toml:"inner"`
	Many []struct {
		Path string `toml:"path"`
	} `toml:"many"`
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		"name = 'a'\nnmae = 'b'":                 `:2:1: unknown key "nmae": did you mean name?`,
		"zzz = 1":                                ":1:1: unknown key \"zzz\": known there are name, count, list, inner, many",
		"[inner]\nbnid = []":                     `:2:1: unknown key "inner.bnid": did you mean bind?`,
		"[[many]]\npath = 'x'\n[[many]]\np=1":    ":4:1:",
		"name = 5":                               ":1:8:",
		"count = 'x'":                            ":1:9:",
		"count = 99999999999999999999999999":     ":1:9:",
		"name = 'a":                              ":1:",
		"name = ":                                ":1:",
		"[inner":                                 ":1:",
		"name = 'a'\nname = 'b'":                 ":2:1:",
		"\x00\x01\x02\xff\xfe":                   ":1:1:",
		"\x7fELF\x02\x01\x01":                    ":1:1:",
		"list = " + strings.Repeat("[", 100_000): ":1:",
	} {
		var into shape
		err := Decode([]byte(text), &into)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: %.200v, want %s", text, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(at("good"), []byte("12345"), 0o600), os.WriteFile(at("huge"), make([]byte, 11), 0o600),
		os.Mkdir(at("directory"), 0o700), syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("/dev/zero", at("endless")),
	); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(at("good"), 10); err != nil || string(text) != "12345" {
		t.Errorf("a file: %q, %v", text, err)
	}
	for name, want := range map[string]string{
		"huge": "more than 10 bytes", "directory": "not a file but a directory", "pipe": "not a file but a pipe",
		"endless": "not a file but a device", "absent": "no such file",
	} {
		if _, err := Read(at(name), 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("name = 'a'"))
	f.Add([]byte("[[many]]\nx=1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var into shape
		if err := Decode(text, &into); err != nil && !strings.HasPrefix(err.Error(), ":") {
			t.Errorf("no place: %v", err)
		}
	})
}
