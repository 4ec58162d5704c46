package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// Command is the table of gdoctor.
func Command() *option.Command {
	return &option.Command{
		Name: "doctor", Standalone: true, Summary: "say what is wrong on this host, and how to mend it", Usage: "[options]",
		Description: []string{
			"gdoctor finds out what this host is to the cluster - a controller, a node, or a place where users type commands - and looks at everything that Gleaner needs there: kernel, control groups, user namespaces, file systems, a container, system-call filter, checkpoints, GPUs, disks, memory, clock, certificates, controllers, daemons, and what dead jobs left. It tries things rather than to guess, as far as that leaves nothing behind, and changes nothing; it may run beside jobs.",
			"Each problem is shown with what was seen, what it means for jobs, and what to do. Run it as root: others are told what they could not see.",
			"Without --role or --config it examines the daemons that run here, else those that have a file in /etc/gleaner, else what a user needs. Where a daemon's configuration cannot be read, the rest is examined with its defaults.",
		},
		Options: []option.Option{
			{Long: "all", Short: 'a', Help: "show what is well, too"},
			{Long: "config", Short: 'c', Argument: "file", Help: "examine the daemon that has this configuration: gnoded….toml, gctld….toml, or any name with --role"},
			{Long: "json", Help: "print JSON: hosts, findings (check, status, seen, means, fix) and how many there are of each status"},
			{Long: "quick", Short: 'q', Help: "start no container and time no disk, each of which takes a second or so"},
			{Long: "role", Short: 'r', Argument: "role[,...]", Help: "examine this host as node, controller or user, whether or not it is set up as such"},
		},
		Run: runDoctor,
		Examples: []option.Example{
			{Text: "Something does not work", Command: `sudo "$(command -v gdoctor)"`},
			{Text: "Before this machine becomes a node", Command: `sudo "$(command -v gdoctor)" --role=node`},
			{Text: "What failed, for a script", Command: `gdoctor --json | jq -r '.findings[] | select(.status == "failed") | .check'`},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "nothing failed; there may be warnings, and what was skipped"},
			{Status: "1", Help: "something failed, or a bad option"},
		},
		SeeAlso: []string{"gcontrol"},
	}
}

func runDoctor(inv *option.Invocation) error {
	if len(inv.Operands) > 0 {
		return inv.Fail("gdoctor takes no arguments, only options: what is %q?", inv.Operands[0])
	}
	var roles []string
	for _, word := range strings.FieldsFunc(inv.Text("role"), func(r rune) bool { return r == ',' || r == ' ' }) {
		switch word = strings.ToLower(word); word {
		case finding.Node, finding.Controller, userRole:
			roles = append(roles, word)
		default:
			return inv.Fail("there is no role %q: the roles are node, controller and user", word)
		}
	}
	late := time.AfterFunc(client.NoticeTime, func() {
		fmt.Fprintln(inv.Stderr, "gdoctor: still checking; takes at most three minutes")
	})
	defer late.Stop()
	targets, err := dial.Targets(inv.Text(option.Controller))
	if err != nil {
		return option.Fail(1, "%w", err)
	}
	tlsDir, err := dial.TLSDir()
	if err != nil {
		return option.Fail(1, "%w", err)
	}
	result, err := examine(inv.Context, examination{
		Roles: roles, Config: inv.Text("config"), Quick: inv.Given("quick"),
		Targets: targets, TLSDir: tlsDir,
	})
	if err != nil {
		return inv.Fail("%w", err)
	}
	if program, err := os.Executable(); err == nil {
		typed := sudoCommand(program)
		for i := range result.Findings {
			f := &result.Findings[i]
			f.Seen, f.Fix = strings.ReplaceAll(f.Seen, plainSudo, typed), strings.ReplaceAll(f.Fix, plainSudo, typed)
		}
	}
	counts := map[finding.Status]int{finding.OK: 0, finding.Warning: 0, finding.Failed: 0, finding.Skipped: 0}
	for _, f := range result.Findings {
		counts[f.Status]++
	}
	if inv.Given("json") {
		err = printDiagnosisJSON(inv, result, counts)
	} else {
		err = printDiagnosis(inv, result, counts)
	}
	if err != nil {
		return err
	}
	if counts[finding.Failed] > 0 {
		return option.Exit(1)
	}
	return nil
}

// plainSudo is what findings say where only root can look.
const plainSudo = "sudo gdoctor"

// sudoPath is where sudo looks for programs, whatever its caller's PATH is.
var sudoPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// sudoCommand is how root's gdoctor is called from the directory of this program:
// one that sudo does not search is typed with its path.
func sudoCommand(program string) string {
	directory := filepath.Dir(program)
	if slices.Contains(sudoPath, directory) {
		return plainSudo
	}
	called := filepath.Join(directory, "gdoctor")
	if _, err := os.Stat(called); err != nil {
		return "sudo " + shellWord(program) + " doctor"
	}
	return "sudo " + shellWord(called)
}

func shellWord(text string) string {
	if strings.ContainsAny(text, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
		return console.Quoted(text)
	}
	return text
}

func printDiagnosisJSON(inv *option.Invocation, result *diagnosis, counts map[finding.Status]int) error {
	out := json.NewEncoder(inv.Stdout)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false) // "systemctl daemon-reload && …" is to be read
	return out.Encode(struct {
		Hosts    []finding.Host         `json:"hosts"`
		Findings []finding.Finding      `json:"findings"`
		Counts   map[finding.Status]int `json:"counts"`
	}{append([]finding.Host{}, result.Hosts...), append([]finding.Finding{}, result.Findings...), counts})
}

// diagnosisWords are how each status is shown, with its colour on a terminal.
var diagnosisWords = map[finding.Status]struct{ word, colour string }{
	finding.OK:      {"ok", "\x1b[32m"},
	finding.Warning: {"WARNING", "\x1b[33m"},
	finding.Failed:  {"FAILED", "\x1b[31m"},
	finding.Skipped: {"skipped", "\x1b[2m"},
}

// printDiagnosis shows the worst first, since that is what the reader came for,
// and the sum at the end, where the eye is when the output stops.
func printDiagnosis(inv *option.Invocation, result *diagnosis, counts map[finding.Status]int) error {
	var text strings.Builder
	colours := wantsColours(inv)
	for _, host := range result.Hosts {
		config := host.Config
		if config == "" {
			config = "no configuration file"
		}
		fmt.Fprintf(&text, "%s %s (%s)\n", host.Role, format.Printable(host.Name), format.Printable(config))
	}
	for _, status := range []finding.Status{finding.Failed, finding.Warning, finding.Skipped, finding.OK} {
		if status == finding.OK && !inv.Given("all") {
			continue
		}
		for _, f := range result.Findings {
			if f.Status == status {
				writeFinding(&text, f, colours)
			}
		}
	}
	fmt.Fprintf(&text, "%d ok, %d warnings, %d failed, %d skipped\n", counts[finding.OK], counts[finding.Warning], counts[finding.Failed], counts[finding.Skipped])
	if result.Hint != "" {
		text.WriteString(result.Hint + "\n")
	}
	_, err := fmt.Fprint(inv.Stdout, text.String())
	return err
}

func writeFinding(text *strings.Builder, f finding.Finding, colours bool) {
	shown := diagnosisWords[f.Status]
	word := fmt.Sprintf("%-8s", shown.word)
	if colours {
		word = shown.colour + word + "\x1b[0m"
	}
	fmt.Fprintf(text, "%s%s: %s\n", word, format.Printable(f.Check), indented(f.Seen))
	if f.Means != "" {
		fmt.Fprintf(text, "        means: %s\n", indented(f.Means))
	}
	if f.Fix != "" {
		fmt.Fprintf(text, "        fix:   %s\n", indented(f.Fix))
	}
}

// indented puts the further lines of a text below its first, with nothing in
// it that a terminal obeys: it may quote files and programs.
func indented(text string) string {
	return strings.ReplaceAll(format.PrintableLines(strings.TrimSpace(text)), "\n", "\n               ")
}

func wantsColours(inv *option.Invocation) bool {
	file, ok := inv.Stdout.(*os.File)
	return ok && inv.Getenv("NO_COLOR") == "" && inv.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}
