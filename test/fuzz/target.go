package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const module = "github.com/gleaner-hpc/gleaner/"

// target is one fuzz target.
type target struct {
	pkg  string // import path without the module
	name string
}

func (t target) String() string { return t.pkg + "." + t.name }

var declared = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// list returns the targets whose package.Target matches, as go test -list
// would, but without compiling every test of the tree first.
func list(tags string, wanted *regexp.Regexp) ([]target, error) {
	const format = `{{.ImportPath}}{{"\t"}}{{.Dir}}{{range .TestGoFiles}}{{"\t"}}{{.}}{{end}}{{range .XTestGoFiles}}{{"\t"}}{{.}}{{end}}`
	out, err := output("go", "list", "-tags", tags, "-f", format, "./...")
	if err != nil {
		return nil, err
	}
	var targets []target
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		for _, file := range fields[min(2, len(fields)):] {
			text, err := os.ReadFile(filepath.Join(fields[1], file))
			if err != nil {
				return nil, err
			}
			for _, found := range declared.FindAllSubmatch(text, -1) {
				t := target{strings.TrimPrefix(fields[0], module), string(found[1])}
				if wanted.MatchString(t.String()) {
					targets = append(targets, t)
				}
			}
		}
	}
	return targets, nil
}

func output(name string, arguments ...string) (string, error) {
	var complaints bytes.Buffer
	cmd := exec.Command(name, arguments...)
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, arguments[0], err, out, complaints.Bytes())
	}
	return string(out), nil
}

// progress is go test's own account, printed every few seconds and at the end:
// "fuzz: elapsed: 3s, execs: 325017 (108336/sec), new interesting: 11 (total: 202)".
var progress = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`)

// run tries the target for a while, prints its line and returns an error
// with all that go test said when it found something.
func (t target) run(each time.Duration, tags string, parallel int) error {
	cmd := exec.Command("go", "test", "-tags", tags, "-run", "^$", "-fuzz", "^"+t.name+"$",
		"-fuzztime", each.String(), "-fuzzminimizetime", "50x", "-parallel", strconv.Itoa(parallel), "./"+t.pkg)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	execs, interesting, said := "0", "0", strings.Builder{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if found := progress.FindStringSubmatch(lines.Text()); found != nil {
			execs, interesting = found[1], found[2]
			continue
		}
		said.WriteString(lines.Text() + "\n")
	}
	err = cmd.Wait()
	result := "ok"
	if err != nil {
		result = "FOUND"
	}
	if err != nil && ranOut(said.String()) {
		result, err = "ok", nil
	}
	fmt.Printf("%-24s %-24s %10s tried %5s new  %s\n", t.pkg, t.name, execs, interesting, result)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", t, err, said.String())
	}
	return nil
}

// ranOut recognises a complaint of go test that is none: the time was over
// while an input was being tried, and no input is named as failing.
func ranOut(said string) bool {
	return strings.Contains(said, "context deadline exceeded") && !strings.Contains(said, "Failing input written to") && !strings.Contains(said, "panic")
}
