// Package operations plays docs/install.md and docs/operations.md: it types what
// the pages tell an operator to type, on machines made of namespaces, and compares
// what is printed with what the page says is printed. So they cannot rot.
//
// A block of a page that is to be typed follows a comment
//
//	<!-- on HOST -->            it succeeds
//	<!-- on HOST, as USER -->   it succeeds, in a login shell of that user
//	<!-- on HOST, fails -->     it does not
//	<!-- on HOST, at last -->   it is typed again until it prints what follows
//
// and what it prints may follow in a block after <!-- prints -->: these lines,
// in this order, others between them; "…" stands for anything. Blocks without a
// comment are for the reader.
package operations

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// step is one block of the page.
type step struct {
	line     int
	section  string
	host     string
	user     string // "" = root
	fails    bool
	atLast   bool
	commands string
	prints   string
}

func TestRunbook(t *testing.T) {
	t.Parallel()
	steps := pageOf(t, "operations.md", 20)
	h, node := newHosts(t, "c1", "c2", "c3", "gpu01"), false
	for name := range h.addresses {
		h.install(name)
	}
	for _, s := range steps {
		if strings.Contains(s.section, "node") && !node {
			h.joinNode()
			node = true
		}
		if !h.play(s) {
			return
		}
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	steps := pageOf(t, "install.md", 10)
	h, node := newHosts(t, "c1", "gpu01", "desk"), false
	for _, s := range steps {
		if !h.play(s) {
			return
		}
		if !node && h.ownGroup() {
			h.endJobs()
			node = true
		}
	}
	if !node {
		t.Error("the page sets up no node")
	}
}

// pageOf returns what is typed of a page, or skips the test.
func pageOf(t *testing.T, page string, least int) []step {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: the hosts are namespaces")
	}
	if testing.Short() {
		t.Skip("needs minutes: it plays the whole page")
	}
	if _, err := os.Stat("../../bin/gctld"); err != nil {
		t.Skip("needs bin/: run make build first")
	}
	for _, tool := range []string{"unshare", "nsenter", "setsid", "ip", "su"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: it makes the hosts", tool)
		}
	}
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	steps := readPage(string(text))
	if len(steps) < least {
		t.Fatalf("%s has only %d blocks to type", page, len(steps))
	}
	return steps
}

// play types one block.
func (h *hosts) play(s step) bool {
	deadline := time.Now().Add(5 * time.Minute) // three leases take two
	for {
		out, err := h.typed(s)
		missing := firstMissing(out, s.prints)
		switch {
		case (err != nil) == s.fails && missing == "":
			h.t.Logf("%s (line %d) on %s:\n%s%s", s.section, s.line, s.host, s.commands, out)
			return true
		case s.atLast && time.Now().Before(deadline):
			time.Sleep(200 * time.Millisecond)
			continue
		}
		log, _ := h.run(s.host, "journalctl -u gctld -n 20; journalctl -u gnoded -n 20 || true")
		h.t.Errorf("%s (line %d) on %s:\n%s--- %v, it printed\n%s--- and not the line\n%s\n--- log\n%s", s.section, s.line, s.host, s.commands, err, out, missing, log)
		return false
	}
}

func (h *hosts) typed(s step) (string, error) {
	if s.user != "" {
		return h.runAs(s.host, "su", "-", s.user, "-c", "set -eu\n"+s.commands)
	}
	return h.run(s.host, s.commands)
}

// firstMissing is the first line of want that out does not have behind those
// before it; "" when it has all.
func firstMissing(out, want string) string {
	lines := strings.Split(out, "\n")
	for wanted := range strings.Lines(want) {
		wanted = oneSpace(wanted)
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(wanted), "…", ".*") + "$")
		found := false
		for !found && len(lines) > 0 {
			found = pattern.MatchString(oneSpace(lines[0]))
			lines = lines[1:]
		}
		if !found {
			return wanted
		}
	}
	return ""
}

// oneSpace makes columns of any width alike.
func oneSpace(line string) string { return strings.Join(strings.Fields(line), " ") }

var marker = regexp.MustCompile(`^<!-- on (\w+)(, fails|, at last|, as (\w+))? -->$`)

// readPage takes the blocks to type out of a page.
func readPage(text string) []step {
	var steps []step
	var block strings.Builder
	section, fence, next := "", false, ""
	for number, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			if fence && next == "prints" {
				steps[len(steps)-1].prints = block.String()
			} else if fence && next == "type" {
				steps[len(steps)-1].commands = block.String()
			}
			if fence {
				next = ""
			}
			fence = !fence
			block.Reset()
		case fence:
			block.WriteString(line + "\n")
		case strings.HasPrefix(line, "#"):
			section = strings.TrimLeft(line, "# ")
		case line == "<!-- prints -->":
			next = "prints"
		default:
			if m := marker.FindStringSubmatch(line); m != nil {
				steps = append(steps, step{line: number + 1, section: section, host: m[1], user: m[3], fails: m[2] == ", fails", atLast: m[2] == ", at last"})
				next = "type"
			}
		}
	}
	return steps
}
