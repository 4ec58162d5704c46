// Package broken shows that the simulation's checks work: it breaks one thing
// at a time in the real code and has the simulation find it.
//
// Contract: nothing in the tree is changed, and no code has a switch for it.
// A Fault replaces words of a file by others; Build builds one program with all
// faults in it (go build -overlay), asleep, and Wake says which of them is awake
// in a run of that program: a build takes far longer than a fault stays hidden.
// Words that are not found exactly once are an error: then the code has changed,
// and so has to change the fault.
package broken

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// Fault is something broken on purpose.
type Fault struct {
	Name  string
	Edits []Edit
	Flags []string // for the simulation
}

// Edit replaces words of a file, whose path is from the tree's root. In New,
// BROKEN is a condition that holds when the fault is awake; what does not
// depend on it must do what Old does.
type Edit struct {
	File     string
	Old, New string
}

// variable of the environment has the number of the fault that is awake.
const variable = "SIMULATED_FAULT"

// Wake is what the environment of a program says for the fault of a number to
// be awake: its place in what Build was given, from 0 on.
func Wake(number int) string { return fmt.Sprintf("%s=%d", variable, number+1) }

// Build builds the package at a path (./test/sim) with faults in it, under dir,
// and answers the program. root is the tree's. Of a package's tests it builds
// the test binary.
func Build(root, dir, path string, tests bool, faults []Fault) (program string, err error) {
	overlay, err := writeOverlay(root, dir, faults)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, filepath.Base(path))
	verb := []string{"build"}
	if tests {
		verb = []string{"test", "-c", "-vet", "off"}
	}
	command := exec.Command("go", append(verb, "-tags", tags(), "-overlay", overlay, "-o", program, path)...)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", path, err, out)
	}
	return program, nil
}

// tags are those that this program was built with: with others, all that it shares with
// the one to be built would be compiled again, SQLite's C included.
func tags() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "-tags" {
			return setting.Value
		}
	}
	return ""
}

// writeOverlay writes the changed files under dir, and what go build is to be
// told of them, whose path it answers.
func writeOverlay(root, dir string, faults []Fault) (string, error) {
	changes := map[string][]change{}
	for number, fault := range faults {
		for _, edit := range fault.Edits {
			changes[edit.File] = append(changes[edit.File], change{number, fault.Name, edit})
		}
	}
	replaced := map[string]string{}
	write := func(path, text string) error {
		replaced[filepath.Join(root, path)] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replaced)))
		return os.WriteFile(replaced[filepath.Join(root, path)], []byte(text), 0o644)
	}
	for path, list := range changes {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return "", err
		}
		changed, err := apply(string(text), list)
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if err := write(path, changed); err != nil {
			return "", err
		}
		beside := filepath.Join(filepath.Dir(path), "simulated_fault.go")
		if replaced[filepath.Join(root, beside)] != "" {
			continue
		}
		name := packageClause.FindStringSubmatch(string(text))
		if name == nil {
			return "", fmt.Errorf("%s names no package", path)
		}
		if err := write(beside, fmt.Sprintf(faultFile, name[1], variable)); err != nil {
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

var packageClause = regexp.MustCompile(`(?m)^package (\w+)$`)

// faultFile comes into each package that has a fault.
const faultFile = `package %s

import (
	"os"
	"strconv"
)

var simulatedFault, _ = strconv.Atoi(os.Getenv(%q))
`

// change is an edit of a fault.
type change struct {
	number int
	name   string
	Edit
}

// apply makes changes in a text. They may not overlap.
func apply(text string, changes []change) (string, error) {
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Compare(strings.Index(text, a.Old), strings.Index(text, b.Old))
	})
	var out strings.Builder
	end := 0
	for _, c := range changes {
		if n := strings.Count(text, c.Old); n != 1 {
			return "", fmt.Errorf("%s: it has %d times %q, want once: the code has changed, so the fault must too", c.name, n, c.Old)
		}
		if !strings.Contains(c.New, "BROKEN") {
			return "", fmt.Errorf("%s: %q lacks BROKEN, without which it is always awake", c.name, c.New)
		}
		begin := strings.Index(text, c.Old)
		if begin < end {
			return "", fmt.Errorf("%s: %q is in another fault's words too: choose fewer", c.name, c.Old)
		}
		out.WriteString(text[end:begin])
		out.WriteString(strings.ReplaceAll(c.New, "BROKEN", fmt.Sprintf("(simulatedFault == %d)", c.number+1)))
		end = begin + len(c.Old)
	}
	out.WriteString(text[end:])
	return out.String(), nil
}
