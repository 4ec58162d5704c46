package option

import (
	"fmt"
	"io"
	"strings"
)

const (
	helpIndent = 2
	helpColumn = 30 // where the sentences start
	helpWidth  = 79 // of a terminal of 80 columns
)

// WriteUsage writes the forms of the command.
func (c *Command) WriteUsage(w io.Writer) error {
	_, err := fmt.Fprintf(w, "Usage: %s %s\n", c.Program(), c.Usage)
	return err
}

// briefExamples is how many examples the short help shows.
const briefExamples = 3

// WriteHelp writes what fits on a screen: of a command with many options
// examples, forms and the options that are used often; of others all.
func (c *Command) WriteHelp(w io.Writer) error {
	if len(c.Often) == 0 {
		return c.writeFullHelp(w)
	}
	var text strings.Builder
	c.writeTitle(&text)
	writeExamples(&text, c.Examples[:min(briefExamples, len(c.Examples))])
	fmt.Fprintf(&text, "\nUsage: %s %s\n\nOften used:\n", c.Program(), c.Usage)
	table := c.Table()
	for _, long := range c.Often {
		if at, found := find(table, long); found {
			name := table[at].helpName()
			if len(name) >= helpColumn-helpIndent-1 { // one line each
				name, _, _ = strings.Cut(name, "=<")
			}
			row(&text, name, gist(table[at].Help))
		}
	}
	fmt.Fprintf(&text, "\nAll options: %s --help=all, or gleaner man %s | man -l -\n", c.Program(), c.Name)
	_, err := io.WriteString(w, text.String())
	return err
}

// gist is the beginning of a help text that says what an option is.
func gist(help string) string {
	if at := strings.IndexAny(help, ",;:("); at > 0 {
		help = strings.TrimSpace(help[:at])
	}
	return help
}

func (c *Command) writeTitle(text *strings.Builder) {
	fmt.Fprintf(text, "%s - %s", c.Program(), c.Summary)
	if c.Alias != "" {
		fmt.Fprintf(text, " (as Slurm's %s)", c.Alias)
	}
	text.WriteString("\n")
}

func writeExamples(text *strings.Builder, examples []Example) {
	if len(examples) == 0 {
		return
	}
	text.WriteString("\nExamples:\n")
	for _, example := range examples {
		fmt.Fprintf(text, "  # %s\n  %s\n", example.Text, strings.ReplaceAll(example.Command, "\n", "\n  "))
	}
}

// writeFullHelp writes the whole help text of the command: forms, options,
// examples and exit status.
func (c *Command) writeFullHelp(w io.Writer) error {
	var text strings.Builder
	c.writeTitle(&text)
	fmt.Fprintf(&text, "\nUsage: %s %s\n", c.Program(), c.Usage)
	section(&text, "Operands", c.Operands)

	var later, ignored []string
	text.WriteString("\nOptions:\n")
	for _, option := range c.Table() {
		switch {
		case option.Hidden:
		case option.Later != "":
			later = append(later, "--"+option.Long)
		case option.Ignored != "":
			ignored = append(ignored, "--"+option.Long)
		default:
			row(&text, option.helpName(), option.helpText())
		}
	}
	names(&text, "Slurm options that are accepted and have no effect (using one tells you why):", ignored)
	names(&text, "Slurm options not supported (using one tells you the alternative):", later)
	section(&text, "Environment", c.Variables)
	writeExamples(&text, c.Examples)
	if len(c.ExitStatus) > 0 {
		text.WriteString("\nExit status:\n")
		for _, status := range c.ExitStatus {
			row(&text, status.Status, status.Help)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// names writes options by their names alone.
func names(text *strings.Builder, title string, options []string) {
	if len(options) == 0 {
		return
	}
	text.WriteString("\n" + title + "\n")
	for _, line := range wrap(strings.Join(options, " "), helpWidth-helpIndent) {
		text.WriteString("  " + line + "\n")
	}
}

func section(text *strings.Builder, title string, rows []Variable) {
	if len(rows) == 0 {
		return
	}
	text.WriteString("\n" + title + ":\n")
	for _, variable := range rows {
		row(text, variable.Name, variable.Help)
	}
}

func (o *Option) helpName() string {
	if o.Short == 0 {
		return "    " + o.Spelling()
	}
	return o.Spelling()
}

func (o *Option) helpText() string {
	help := o.Help
	if o.Default != "" {
		help += " (default: " + o.Default + ")"
	}
	if len(o.Aliases) > 0 {
		help += "; also --" + strings.Join(o.Aliases, ", --")
	}
	return help
}

// row writes a name and its explanation in two columns.
func row(text *strings.Builder, name, help string) {
	indent := strings.Repeat(" ", helpIndent)
	if len(name) >= helpColumn-helpIndent-1 {
		text.WriteString(indent + name + "\n")
		name = ""
	}
	for i, line := range wrap(help, helpWidth-helpColumn) {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(text, "%s\n", strings.TrimRight(fmt.Sprintf("%s%-*s%s", indent, helpColumn-helpIndent, name, line), " "))
	}
}

// wrap breaks a text into lines of at most width letters, at spaces.
func wrap(text string, width int) []string {
	var out []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(out, line)
}
