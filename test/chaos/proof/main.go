// Command proof shows that package chaos finds what it is there to find: it
// builds the daemons with one protection broken, tells chaos the story that
// needs that protection, and demands that the checker reports it, and that it
// reports nothing when the daemons are whole.
//
// It promises to change no file of the source (go build -overlay), and to fail
// when a protection is not where it is looked for. It needs what chaos needs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// protection is one thing that keeps a promise, and how to break it.
type protection struct {
	story  string
	what   string // is broken
	file   string
	intact string // what is there, exactly once
	broken string
	wrong  []string // what the checker must find; one of them
}

var protections = []protection{
	{
		story: "fencing", what: "a job under fence is not frozen at the end of its lease",
		file:   "noded/lease/lease.go",
		intact: "return !l.Gone && (!l.Fence || now < l.End)",
		broken: "return !l.Gone && (!l.Fence || l.End > 0)",
		wrong:  []string{"overlap"},
	},
	{
		story: "epochs", what: "a report counts for whatever run of the job holds the node",
		file:   "ctld/state/alloc_ready.go",
		intact: "if !known || job.Epoch != ref.Epoch || !job.HoldsNodes() {",
		broken: "if !known || !job.HoldsNodes() {",
		wrong:  []string{"wrong end", "overlap"},
	},
	{
		story: "request-ids", what: "what a request did is forgotten",
		file:   "ctld/state/remember.go",
		intact: "if id == (RequestID{}) || result.Refused != nil",
		broken: "if true || id == (RequestID{}) || result.Refused != nil",
		wrong:  []string{"doubled"},
	},
	{
		story: "history", what: "what a database has missed is not copied from another",
		file:   "ctld/history/history.go",
		intact: "case through > k.Through():",
		broken: "case false && through > k.Through():",
		wrong:  []string{"lost in history"},
	},
}

// Limits of a build and of a story.
const (
	buildLimit = 15 * time.Minute
	tellLimit  = 6 * time.Minute
)

type options struct {
	chaos, binaries, work, tags, only string
}

func main() {
	var o options
	flag.StringVar(&o.chaos, "chaos", ".build/chaos", "the `program` chaos")
	flag.StringVar(&o.binaries, "bin", "bin", "`folder` of Gleaner's programs")
	flag.StringVar(&o.work, "work", ".build/broken", "`folder` for the broken programs")
	flag.StringVar(&o.tags, "tags", "seccomp", "build `tags`")
	flag.StringVar(&o.only, "only", "", "only this `story`")
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Println("proof: skipped: it needs root, for namespaces, containers and control groups")
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := proveAll(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

func proveAll(ctx context.Context, o options) error {
	var all []error
	for _, p := range protections {
		if o.only != "" && o.only != p.story {
			continue
		}
		err := p.prove(ctx, o)
		if err != nil {
			err = fmt.Errorf("%s: %w", p.story, err)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// prove tells the story with whole daemons, then with broken ones.
func (p *protection) prove(ctx context.Context, o options) error {
	found, err := p.tell(ctx, o, o.binaries)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("with all protections in place the checker found: %s", strings.Join(found, "; "))
	}
	fmt.Printf("proof: %-12s whole: nothing is wrong\n", p.story)
	binaries, err := p.build(ctx, o)
	if err != nil {
		return err
	}
	if found, err = p.tell(ctx, o, binaries); err != nil {
		return err
	}
	for _, line := range found {
		for _, wrong := range p.wrong {
			if strings.HasPrefix(line, wrong+":") {
				fmt.Printf("proof: %-12s broken (%s): caught: %s\n", p.story, p.what, line)
				return nil
			}
		}
	}
	return fmt.Errorf("%s, and the checker did not find %s but %q", p.what, strings.Join(p.wrong, " or "), found)
}

// wrongMark begins the lines in which chaos says what is wrong.
const wrongMark = "WRONG  "

// tell runs chaos and returns what it found.
func (p *protection) tell(ctx context.Context, o options, binaries string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	command := exec.CommandContext(ctx, o.chaos, "-bin", binaries, "-story", p.story, "-nodes", "3", "-seed", "1", "-logs", filepath.Join(o.work, p.story+".logs"))
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 3 * time.Minute // to clean up
	command.Stderr = os.Stderr
	out, err := command.Output()
	var found []string
	for line := range strings.Lines(string(out)) {
		if what, ok := strings.CutPrefix(strings.TrimSpace(line), wrongMark); ok {
			found = append(found, what)
		}
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the story took longer than %v, or was interrupted", tellLimit)
	case err != nil && !errors.As(err, &exit):
		return nil, err
	case err != nil && len(found) == 0:
		return nil, fmt.Errorf("chaos failed without a finding:\n%s", out)
	}
	return found, nil
}

// build builds the programs with the protection broken.
func (p *protection) build(ctx context.Context, o options) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	binaries := filepath.Join(o.work, p.story)
	if err := os.RemoveAll(binaries); err != nil {
		return "", err
	}
	if err := os.CopyFS(binaries, os.DirFS(o.binaries)); err != nil {
		return "", err
	}
	overlay, err := p.overlay(o)
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", o.tags, "-overlay", overlay, "-o", binaries+"/", "./cmd/gctld", "./cmd/gnoded")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build it broken: %w\n%s", err, out)
	}
	return binaries, nil
}

// overlay writes the broken file next to the source, and what go build needs to
// use it instead.
func (p *protection) overlay(o options) (string, error) {
	text, err := os.ReadFile(p.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), p.intact); n != 1 {
		return "", fmt.Errorf("%s has %q %d times and not once: tell the proof where this protection is now", p.file, p.intact, n)
	}
	broken, err := filepath.Abs(filepath.Join(o.work, p.story+".go.broken"))
	if err != nil {
		return "", err
	}
	source, err := filepath.Abs(p.file)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(broken, []byte(strings.Replace(string(text), p.intact, p.broken, 1)), 0o644); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {source: broken}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.work, p.story+".overlay.json")
	return path, os.WriteFile(path, list, 0o644)
}
