package procstatus

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSelf(t *testing.T) {
	status, err := Read(Dir(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if numbers, err := Numbers(status); err != nil || numbers[0] != os.Getpid() {
		t.Errorf("numbers %v, %v; want %d first", numbers, err, os.Getpid())
	}
	if Stopped(os.Getpid()) {
		t.Error("stopped")
	}
	if _, err := Innermost(filepath.Join(t.TempDir(), "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that has ended: %v", err)
	}
}

// TestNumbers: a process in a container has several, and the last is its own.
func TestNumbers(t *testing.T) {
	for text, want := range map[string][]int{
		"Name:\ta\nPid:\t70\nNSpid:\t70\t12\t1\n": {70, 12, 1},
		"Name:\tNSpid: 3\nPid:\t70\nNSpid:\t70\n": {70},
		"Name:\ta\nPid:\t70\n":                    nil,
		"NSpid:\t70\tx\n":                         nil,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "status"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		status, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		numbers, err := Numbers(status)
		if !slices.Equal(numbers, want) || (err != nil) != (want == nil) {
			t.Errorf("%q: %v, %v; want %v", text, numbers, err, want)
		}
		if last, err := Innermost(dir); err == nil && last != want[len(want)-1] {
			t.Errorf("%q: innermost %d", text, last)
		}
	}
}
