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

// Faults are those that the simulation must find.
var Faults = []Fault{
	{"a frozen part thaws by any answer", []Edit{
		{"noded/lease/lease.go", "	case g.Named:\n", "	case true:\n"},
	}, nil},
	{"a lease is ended before its time", []Edit{
		{"ctld/leader/liveness.go", "silent := now.Sub(seen) > lease && now.After(l.sessions.LeaseUntil(node.Name))", "silent := now.Sub(seen) > lease/4"},
		{"ctld/leader/leases.go", "return now.Add(-time.Duration(view.Policy().MarginS()) * time.Second)", "return now.Add(time.Duration(view.Policy().LeaseS) * time.Second)"},
	}, nil},
	{"a report counts for any run of its job", []Edit{
		{"ctld/state/part_ready.go", "if !known || job.Epoch != ref.Epoch || !job.HoldsNodes() {", "if !known || !job.HoldsNodes() {"},
	}, nil},
	{"request ids are not remembered", []Edit{
		{"ctld/state/remember.go", "	if id == (RequestID{}) || result.Refused != nil", "	if id != (RequestID{}) || result.Refused != nil"},
	}, nil},
	// A node answers an order for a part that it had with how it ended, so this
	// shows only where nodes do not.
	{"orders come from a state older than what the node said", []Edit{
		{"ctld/leader/dispatch.go", "l.dispatchTo(view, node.session, node.parts)", "l.dispatchTo(view, node.session, node.session.Parts())"},
	}, []string{"-forgetful"}},
}

// Unconfirmed is a leader that answers without asking a majority. It shows with
// real raft only: see package raftmode.
var Unconfirmed = Fault{"a leader answers without confirming that it leads", []Edit{
	{"ctld/cluster.go", "	return c.peer.Confirm(ctx, term)\n", "	return nil\n"},
}, nil}

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
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", fault.Name, err)
		}
		if n := strings.Count(string(text), edit.Old); n != 1 {
			return "", fmt.Errorf("%s: %s has %d times %q, want once: think the fault out anew", fault.Name, edit.File, n, edit.Old)
		}
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(changed, []byte(strings.Replace(string(text), edit.Old, edit.New, 1)), 0o644); err != nil {
			return "", err
		}
		replaced[path] = changed
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}
