package scenario

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

var rewrite = flag.Bool("rewrite", false, "write what the commands of docs pages print into them; then read the difference")

func init() { commands["page"] = playPage }

// prompt begins a line that somebody types: root, or one of the test's users.
var prompt = regexp.MustCompile(`^(alice|bob)?\$ (.*)$`)

// playPage is `page FILE`: types what the page docs/FILE shows in its blocks
// of console, and compares what is printed. A block of toml with a comment
// that names a file before it becomes that file.
func playPage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: page FILE")
	}
	path := filepath.Join("..", "..", "docs", args[0])
	text, err := os.ReadFile(path)
	ts.Check(err)
	p := page{ts: ts}
	for line := range strings.Lines(string(text)) {
		p.read(strings.TrimSuffix(line, "\n"))
	}
	if p.commands == 0 {
		ts.Fatalf("%s shows no commands", path)
	}
	played := p.out.String()
	if *rewrite {
		ts.Check(os.WriteFile(path, []byte(played), 0o644))
		return
	}
	if played != string(text) {
		ts.Fatalf("%s prints otherwise now (run with -rewrite and read the difference): %s", args[0], difference(string(text), played))
	}
}

// page is a page that is being played.
type page struct {
	ts       *testscript.TestScript
	out      strings.Builder
	fence    string // of the block that we are in: "console", "toml", …; "" = text
	file     string // named by the last comment
	content  strings.Builder
	commands int
}

func (p *page) read(line string) {
	switch {
	case p.fence == "" && strings.HasPrefix(line, "```"):
		p.fence = strings.TrimPrefix(line, "```") + " "
	case p.fence == "":
		if name, found := strings.CutPrefix(line, "<!-- "); found {
			p.file = strings.TrimSuffix(name, " -->")
		}
	case line == "```":
		if p.fence == "toml " && p.file != "" {
			content := p.content.String()
			if registry := p.ts.Getenv("REGISTRY"); registry != "" {
				content = strings.ReplaceAll(content, registryOnPage, registry)
			}
			p.ts.Check(os.WriteFile(p.ts.MkAbs(p.file), []byte(content), 0o644))
			p.file = ""
		}
		p.content.Reset()
		p.fence = ""
	case p.fence == "console ":
		typed := prompt.FindStringSubmatch(line)
		if typed == nil {
			return // what it printed when the page was written
		}
		p.out.WriteString(line + "\n" + p.answer(typed[1], typed[2]))
		p.commands++
		return
	default:
		p.content.WriteString(line + "\n")
	}
	p.out.WriteString(line + "\n")
}

// On a page, the story's registry has this name, and a digest is not written out: both are
// others each time.
const registryOnPage, digestOnPage = "registry.lab.example", "sha256:…"

var anyDigest = regexp.MustCompile(`sha256:[0-9a-f]{12,64}`)

// answer runs a line as a user, "" = root, and returns all that it prints.
func (p *page) answer(user, line string) string {
	registry := p.ts.Getenv("REGISTRY")
	if registry != "" {
		line = strings.ReplaceAll(line, registryOnPage, registry)
	}
	command := exec.Command("sh", "-c", line)
	if user != "" {
		command = exec.Command("as", user, "sh", "-c", line)
		command.Path = filepath.Join(p.ts.Getenv("WORK"), ".tools", "as")
		command.Err = nil
	}
	command.Dir = p.ts.MkAbs(".")
	for _, name := range []string{"PATH", "STORY", "GLEANER_CONTROLLER", "GLEANER_NODED"} {
		command.Env = append(command.Env, name+"="+p.ts.Getenv(name))
	}
	out, err := command.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		p.ts.Fatalf("%s: %v", line, err)
	}
	if registry != "" {
		out = []byte(strings.ReplaceAll(anyDigest.ReplaceAllString(string(out), digestOnPage), registry, registryOnPage))
	}
	var text strings.Builder
	for printed := range strings.Lines(string(out)) {
		text.WriteString(strings.TrimRight(printed, " \n") + "\n")
	}
	return text.String()
}

func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n  was: %s\n  now: %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, now %d", len(a), len(b))
}
