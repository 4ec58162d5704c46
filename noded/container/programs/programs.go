// Package programs is a list of real programs that can be saved and moved in
// the middle of what they do, each as a file below list/. The tests of
// noded/container move the brief ones, and test/migrations moves all of them
// between the nodes of a cluster.
//
// Each promises that it prints Ready in a line of its own once its work is under
// way, works until there is a file Go in its working directory, and ends within
// seconds of that; and that all it has printed by then, the files that it leaves
// there and its exit status are the same however long it took. It looks for
// damage itself, and says so: what it printed is compared with that of an
// undisturbed run. A program may write below its working directory, /tmp,
// /var/tmp and /dev/shm.
//
// A file of the list is a txtar archive. It begins with a title, and lines
// "key: value" after it:
//
//	needs    programs, without which it is left out
//	check    a command of the shell that fails where something else is missing
//	prepare  a command that is run in its directory first, by who tests
//	as       the program whose files it has
//	memory   what it needs as a job; 256M if nothing is said
//	network  private: it is to have a network of its own
//	nodes    how many it runs on
//	submit   further options of gsubmit
//	moves    how often it is moved in a row; two, there and back, if nothing is said
//	refused  it cannot be saved, and this regular expression matches why
//	brief    yes: seconds are enough to move it
//
// The archive's file "run" is its script.
package programs

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// What a program and who moves it agree on.
const (
	Script = "run"   // the file that is run
	Ready  = "ready" // printed, in a line of its own
	Go     = "go"    // the file that lets it come to its end
)

// Program is one program of the list.
type Program struct {
	Name    string // in file names: "python-threads"
	Title   string // what it is, in a line
	Memory  string // of its job, as gsubmit --mem has it
	Private bool   // it needs a network of its own
	Nodes   int
	Moves   int            // in a row
	Options []string       // further ones of gsubmit
	Brief   bool           // seconds are enough to move it
	Refused *regexp.Regexp // matches why it cannot be saved; nil if it can

	needs          []string
	check, prepare string
	as             string
	files          []txtar.File
}

//go:embed list/*.txtar
var list embed.FS

// All answers the whole list, by name.
func All() ([]*Program, error) {
	entries, err := list.ReadDir("list")
	if err != nil {
		return nil, err
	}
	var all []*Program
	for _, entry := range entries {
		data, err := list.ReadFile("list/" + entry.Name())
		if err != nil {
			return nil, err
		}
		p, err := parse(strings.TrimSuffix(entry.Name(), ".txtar"), data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all = append(all, p)
	}
	for _, p := range all {
		if p.as == "" {
			continue
		}
		i := slices.IndexFunc(all, func(other *Program) bool { return other.Name == p.as })
		if i < 0 || all[i].as != "" {
			return nil, fmt.Errorf("%s: there is no program %q with files", p.Name, p.as)
		}
		p.files = all[i].files
	}
	return all, nil
}

// parse reads one file of the list.
func parse(name string, data []byte) (*Program, error) {
	archive := txtar.Parse(data)
	title, keys, _ := strings.Cut(string(archive.Comment), "\n")
	p := &Program{Name: name, Title: title, files: archive.Files}
	for line := range strings.Lines(keys) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if err := p.set(key, value); err != nil {
			return nil, err
		}
	}
	hasScript := slices.ContainsFunc(p.files, func(f txtar.File) bool { return f.Name == Script })
	if title == "" || hasScript == (p.as != "") {
		return nil, errors.New("needs a title, and either a file \"run\" or another program's")
	}
	p.Memory, p.Nodes, p.Moves = cmp.Or(p.Memory, "256M"), cmp.Or(p.Nodes, 1), cmp.Or(p.Moves, 2)
	return p, nil
}

func (p *Program) set(key, value string) (err error) {
	switch key {
	case "needs":
		p.needs = strings.Fields(value)
	case "check":
		p.check = value
	case "prepare":
		p.prepare = value
	case "as":
		p.as = value
	case "memory":
		p.Memory = value
	case "network":
		p.Private = value == "private"
	case "moves":
		p.Moves, err = strconv.Atoi(value)
	case "nodes":
		p.Nodes, err = strconv.Atoi(value)
	case "submit":
		p.Options = strings.Fields(value)
	case "refused":
		p.Refused, err = regexp.Compile(value)
	case "brief":
		p.Brief = value == "yes"
	default:
		err = fmt.Errorf("unknown key %q", key)
	}
	return err
}

// Path is where programs are looked for when they run.
const Path = "/usr/local/bin:/usr/bin:/bin"

// Missing answers what this machine lacks to run it; empty if nothing.
func (p *Program) Missing(ctx context.Context) string {
	for _, name := range p.needs {
		if _, err := exec.LookPath(name); err != nil {
			return name
		}
	}
	if p.check != "" && shell(ctx, "/", Path, p.check) != nil {
		return "what passes: " + p.check
	}
	return ""
}

// Put writes its files into a directory, and prepares them.
func (p *Program) Put(ctx context.Context, dir string) error {
	for _, file := range p.files {
		if err := os.WriteFile(filepath.Join(dir, file.Name), file.Data, 0o755); err != nil {
			return err
		}
	}
	if p.prepare == "" {
		return nil
	}
	return shell(ctx, dir, os.Getenv("PATH"), p.prepare)
}

func shell(ctx context.Context, dir, path, command string) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return nil
}
