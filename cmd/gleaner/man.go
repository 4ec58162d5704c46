package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/dial"
)

func manCommand() *option.Command {
	return &option.Command{
		Name: "man", Summary: "write manual pages", Usage: "[--dir=<directory>] [command]",
		Description: []string{
			"gleaner man writes the manual pages of all commands, made from the same tables as their options, into a directory, which is made if need be; without one, the page of one command to standard output.",
		},
		Operands:   []option.Variable{{Name: "command", Help: "the command whose page is printed: queue or gqueue; gleaner itself if none is named"}},
		Options:    []option.Option{{Long: "dir", Argument: "directory", Help: "write all pages here, as gsubmit.1 and so on"}},
		Run:        runMan,
		Examples:   []option.Example{{Text: "Read a page", Command: "gleaner man queue | man -l -"}, {Text: "Install all of them", Command: "gleaner man --dir=/usr/local/share/man/man1"}},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "written"}, {Status: "1", Help: "no such command, or the directory cannot be written"}},
	}
}

func runMan(inv *option.Invocation) error {
	if dir := inv.Text("dir"); dir != "" {
		if len(inv.Operands) > 0 {
			return inv.Fail("--dir writes the pages of all commands; leave out %q", inv.Operands[0])
		}
		return writePages(dir)
	}
	if len(inv.Operands) > 1 {
		return inv.Fail("one command at a time, please")
	}
	page := overviewPage()
	if len(inv.Operands) == 1 && inv.Operands[0] != "gleaner" {
		command := byProgram(inv.Operands[0])
		if command == nil {
			command = byName(inv.Operands[0])
		}
		if command == nil {
			return inv.Fail("%w", unknownCommand(inv.Operands[0]))
		}
		page = commandPage(command)
	}
	_, err := io.WriteString(inv.Stdout, page)
	return err
}

// writePages writes a page for each command, and one for gleaner.
func writePages(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make the directory for the manual pages: %w", err)
	}
	pages := map[string]string{"gleaner": overviewPage()}
	for _, command := range commands() {
		if !command.Hidden {
			pages[pageName(command)] = commandPage(command)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(pages[name]), 0o644); err != nil {
			return fmt.Errorf("cannot write the manual page: %w", err)
		}
	}
	return nil
}

// pageName is gsubmit, or gleaner-dev for a command that is no program of its
// own.
func pageName(command *option.Command) string {
	return strings.ReplaceAll(command.Program(), " ", "-")
}

// page gathers what man(7) formats.
type page struct{ bytes.Buffer }

func (p *page) title(name, summary string) {
	fmt.Fprintf(p, ".TH %s 1 \"\" %s \"User Commands\"\n", roffArgument(strings.ToUpper(name)), roffArgument("gleaner "+version))
	p.section("NAME")
	fmt.Fprintf(p, "%s \\- %s\n", roff(name), roff(summary))
}

func (p *page) section(name string) { fmt.Fprintf(p, ".SH %s\n", name) }

func (p *page) paragraph(text string) { fmt.Fprintf(p, ".PP\n%s\n", roff(text)) }

// synopsis is a program in bold, and what follows it.
func (p *page) synopsis(program, usage string) {
	p.section("SYNOPSIS")
	fmt.Fprintf(p, "\\fB%s\\fP %s\n", roff(program), roff(usage))
}

// entry is a term in bold and what it means, indented.
func (p *page) entry(term, help string) {
	fmt.Fprintf(p, ".TP\n\\fB%s\\fP\n%s\n", roff(term), roff(help))
}

// lines are shown as they are, indented.
func (p *page) lines(text string) {
	fmt.Fprintf(p, ".PP\n.RS 4\n.nf\n")
	for line := range strings.Lines(text) {
		fmt.Fprintf(p, "%s\n", roff(strings.TrimSuffix(line, "\n")))
	}
	fmt.Fprintf(p, ".fi\n.RE\n")
}

// variables is a section of names and what they mean.
func (p *page) variables(name string, entries []option.Variable) {
	if len(entries) == 0 {
		return
	}
	p.section(name)
	for _, entry := range entries {
		p.entry(entry.Name, sentence(entry.Help))
	}
}

func commandPage(command *option.Command) string {
	p := &page{}
	p.title(pageName(command), command.Summary)
	p.synopsis(command.Program(), command.Usage)
	p.section("DESCRIPTION")
	for _, paragraph := range command.Description {
		p.paragraph(paragraph)
	}
	if command.Alias != "" {
		p.paragraph(fmt.Sprintf("It takes the options and arguments of Slurm's %s, in the same forms.", command.Alias))
	}
	p.variables("OPERANDS", command.Operands)
	p.options(command)
	p.variables("ENVIRONMENT", environmentOf(command))
	if len(command.ExitStatus) > 0 {
		p.section("EXIT STATUS")
		for _, status := range command.ExitStatus {
			p.entry(status.Status, sentence(status.Help))
		}
	}
	p.examples(command.Examples)
	if len(command.SeeAlso) > 0 {
		p.section("SEE ALSO")
		p.paragraph("gleaner(1), " + strings.Join(command.SeeAlso, "(1), ") + "(1)")
	}
	return p.String()
}

// options are those that are supported, then those that are refused.
func (p *page) options(command *option.Command) {
	p.section("OPTIONS")
	var later, ignored []option.Option
	for _, o := range command.Table() {
		switch {
		case o.Hidden:
		case o.Later != "":
			later = append(later, o)
		case o.Ignored != "":
			ignored = append(ignored, o)
		default:
			help := sentence(o.Help)
			if o.Default != "" {
				help += " The default is " + o.Default + "."
			}
			if len(o.Aliases) > 0 {
				help += " Also --" + strings.Join(o.Aliases, ", --") + "."
			}
			if o.InScript {
				help += " May be used in a script's #GSUB or #SBATCH line."
			}
			p.entry(o.Spelling(), help)
		}
	}
	if len(ignored) > 0 {
		p.section("WITHOUT EFFECT")
		p.paragraph("These options are known from Slurm and accepted: a job runs as well without them. A line on standard error says so.")
	}
	for _, o := range ignored {
		p.entry(o.Spelling(), sentence(o.Ignored))
	}
	if len(later) == 0 {
		return
	}
	p.section("NOT SUPPORTED")
	p.paragraph("These options are known from Slurm and refused, so that nothing is silently left undone.")
	for _, o := range later {
		p.entry(o.Spelling(), "Instead: "+sentence(o.Later))
	}
}

// environmentOf are the variables of the options and all others.
func environmentOf(command *option.Command) []option.Variable {
	var variables []option.Variable
	for _, o := range command.Table() {
		if len(o.Environment) > 0 && !o.Hidden && o.Later == "" && o.Ignored == "" {
			variables = append(variables, option.Variable{Name: strings.Join(o.Environment, ", "), Help: "as --" + o.Long})
		}
	}
	return append(variables, command.Variables...)
}

func (p *page) examples(examples []option.Example) {
	if len(examples) == 0 {
		return
	}
	p.section("EXAMPLES")
	for _, example := range examples {
		p.paragraph(example.Text + ":")
		p.lines(example.Command)
	}
}

func overviewPage() string {
	p := &page{}
	p.title("gleaner", "a batch scheduler for GPUs that have owners")
	p.synopsis("gleaner", "command [options] [operands]")
	p.section("DESCRIPTION")
	p.paragraph("Every user command of Gleaner is one program. gleaner submit and gsubmit are the same; each command has a page of its own.")
	p.section("COMMANDS")
	for _, command := range commands() {
		if !command.Hidden {
			p.entry(command.Program(), sentence(command.Summary)+" See "+pageName(command)+"(1).")
		}
	}
	p.variables("ENVIRONMENT", []option.Variable{
		{Name: "GLEANER_CONTROLLER", Help: "where the controllers are, joined by commas: unix:///path or host:port"},
		{Name: client.TimeoutVariable, Help: "for how many seconds a command looks for a controller that carries its request out (30; 5 for a question while none listens)"},
		{Name: "GLEANER_TLS_DIR", Help: "the directory with ca.pem, cert.pem and key.pem for controllers on other hosts; ca.pem is enough with munge"},
		{Name: dial.EnvironmentMunge, Help: "the socket of munged, which says who asks where there is no cert.pem (/run/munge/munge.socket.2, if it is there)"},
	})
	return p.String()
}

// roff has a text printed as it is: a backslash begins an escape, a hyphen would become a
// typographic one that no shell knows, and a point or an apostrophe at the start of a
// line begins a request (groff(7)).
func roff(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if line[0] == '.' || line[0] == '\'' {
			out.WriteString(`\&`)
		}
		out.WriteString(roffEscapes.Replace(line))
	}
	return out.String()
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// roffArgument is one argument of a request.
func roffArgument(text string) string {
	return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"`
}

// sentence gives a help text its capital letter and full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "…") {
		return text
	}
	return text + "."
}
