// Package broken shows that the simulation's checks work: it breaks one thing
// at a time in the real code and has the simulation find it.
//
// Contract: nothing in the tree is changed, and no code has a switch for it.
// A Fault replaces words of a file by others; Build builds the simulation with
// those files in the place of the tree's (go build -overlay). Words that are
// not found exactly once are an error: then the code has changed, and the
// fault has to be thought out anew.
package broken

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Fault is something broken on purpose.
type Fault struct {
	Name  string
	Edits []Edit
	Flags []string // for the simulation
}

// Edit replaces words of a file, whose path is from the tree's root.
type Edit struct {
	File     string
	Old, New string
}

// Build builds the package at a path (./test/sim) with a fault in it, under
// dir, and answers the program. root is the tree's.
func Build(root, dir, path string, fault Fault) (program string, err error) {
	overlay, err := Overlay(root, dir, fault)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "program")
	command := exec.Command("go", "build", "-overlay", overlay, "-o", program, path)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: build: %w\n%s", fault.Name, err, out)
	}
	return program, nil
}

// Overlay writes the changed files under dir, and what go build is to be told
// of them, whose path it answers.
func Overlay(root, dir string, fault Fault) (string, error) {
	replaced := map[string]string{}
	for i, edit := range fault.Edits {
		path := filepath.Join(root, edit.File)
		if replaced[path] == "" {
			replaced[path] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
			if err := copyFile(path, replaced[path]); err != nil {
				return "", fmt.Errorf("%s: %w", fault.Name, err)
			}
		}
		text, err := os.ReadFile(replaced[path])
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), edit.Old); n != 1 {
			return "", fmt.Errorf("%s: %s has %d times %q, want once: think the fault out anew", fault.Name, edit.File, n, edit.Old)
		}
		if err := os.WriteFile(replaced[path], []byte(strings.Replace(string(text), edit.Old, edit.New, 1)), 0o644); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
