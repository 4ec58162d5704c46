package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/control"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

func completionCommand() *option.Command {
	return &option.Command{
		Name: "completion", Summary: "write a completion script for a shell", Usage: "bash|zsh|fish",
		Description: []string{"gleaner completion prints a script that teaches a shell the commands of Gleaner and their options, made from the same tables as the options themselves."},
		Operands:    []option.Variable{{Name: "bash|zsh|fish", Help: "the shell"}},
		Run:         runCompletion,
		Examples: []option.Example{
			{Text: "In ~/.bashrc", Command: "source <(gleaner completion bash)"},
			{Text: "For everybody, in every shell that is started", Command: "gleaner completion bash > /etc/bash_completion.d/gleaner"},
			{Text: "In fish", Command: "gleaner completion fish | source"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "written"}, {Status: "1", Help: "there is no script for this shell"}},
	}
}

func runCompletion(inv *option.Invocation) error {
	shells := map[string]func([]*option.Command) string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	if len(inv.Operands) != 1 || shells[inv.Operands[0]] == nil {
		return inv.Fail("name one of the shells bash, zsh and fish")
	}
	visible := slices.DeleteFunc(commands(), func(c *option.Command) bool { return c.Hidden })
	_, err := io.WriteString(inv.Stdout, shells[inv.Operands[0]](visible))
	return err
}

// offered are the options worth completing.
func offered(command *option.Command) []option.Option {
	return slices.DeleteFunc(command.Table(), func(o option.Option) bool { return o.Hidden || o.Later != "" || o.Ignored != "" })
}

// operandWords are what a command's first operand may be, where that is a
// closed set.
func operandWords(command *option.Command) []string {
	switch command.Name {
	case "control":
		return control.VerbNames()
	case "completion":
		return []string{"bash", "zsh", "fish"}
	}
	return nil
}

// programs are gleaner and the commands that are programs of their own.
func programs(commands []*option.Command) []string {
	names := []string{"gleaner"}
	for _, command := range commands {
		if command.OwnProgram() {
			names = append(names, command.Program())
		}
	}
	return names
}

func zshCompletion(commands []*option.Command) string {
	var out strings.Builder
	fmt.Fprintf(&out, "#compdef %s\n# zsh completion for gleaner, written by \"gleaner completion zsh\"\n\n", strings.Join(programs(commands), " "))
	for _, command := range commands {
		fmt.Fprintf(&out, "_gleaner_%s() {\n\t_arguments -s -S \\\n", command.Name)
		for _, o := range offered(command) {
			fmt.Fprintf(&out, "\t\t%s \\\n", zshOption(&o))
		}
		operand := "'*: :_files'"
		if words := operandWords(command); len(words) > 0 {
			operand = "'1: :(" + strings.Join(words, " ") + ")' " + operand
		}
		fmt.Fprintf(&out, "\t\t%s\n}\n\n", operand)
	}
	out.WriteString("_gleaner() {\n\tlocal command=${service#g}\n\tif [[ $service == gleaner ]]; then\n\t\tif ((CURRENT == 2)); then\n\t\t\tlocal -a commands=(\n")
	for _, command := range commands {
		fmt.Fprintf(&out, "\t\t\t\t%s\n", console.Quoted(command.Name+":"+command.Summary))
	}
	out.WriteString("\t\t\t)\n\t\t\t_describe command commands\n\t\t\treturn\n\t\tfi\n\t\tcommand=$words[2]\n\t\tshift words\n\t\t((CURRENT--))\n\tfi\n")
	out.WriteString("\t(($+functions[_gleaner_$command])) && _gleaner_$command\n}\n\n_gleaner \"$@\"\n")
	return out.String()
}

// zshOption is an option as _arguments wants it.
func zshOption(o *option.Option) string {
	help := strings.NewReplacer("[", "(", "]", ")", ":", "\\:").Replace(o.Help)
	long, short, argument := "--"+o.Long, "", ""
	if o.Short != 0 {
		short = "-" + string(o.Short)
	}
	if !o.Flag() {
		word := strings.NewReplacer(":", " ", "[", "", "]", "").Replace(o.Argument)
		argument = ":" + word + ":"
		long += "="
		if o.OptionalArgument {
			argument = ":" + argument
			long += "-"
			if short != "" {
				short += "-"
			}
		} else if short != "" {
			short += "+"
		}
	}
	text := console.Quoted("[" + help + "]" + argument)
	if short == "" {
		return "'" + long + "'" + text
	}
	return fmt.Sprintf("'(-%c --%s)'{%s,%s}%s", o.Short, o.Long, short, long, text)
}

func fishCompletion(commands []*option.Command) string {
	var out strings.Builder
	out.WriteString("# fish completion for gleaner, written by \"gleaner completion fish\"\n")
	for _, command := range commands {
		fmt.Fprintf(&out, "complete -c gleaner -f -n __fish_use_subcommand -a %s -d %s\n", command.Name, console.Quoted(command.Summary))
		heads := []string{"complete -c gleaner -n '__fish_seen_subcommand_from " + command.Name + "'"}
		if command.OwnProgram() {
			heads = append(heads, "complete -c "+command.Program())
		}
		for _, head := range heads {
			if words := operandWords(command); len(words) > 0 {
				fmt.Fprintf(&out, "%s -a '%s'\n", head, strings.Join(words, " "))
			}
			for _, o := range offered(command) {
				fmt.Fprintf(&out, "%s -l %s", head, o.Long)
				if o.Short != 0 {
					fmt.Fprintf(&out, " -s %c", o.Short)
				}
				if !o.Flag() && !o.OptionalArgument {
					out.WriteString(" -r")
				}
				fmt.Fprintf(&out, " -d %s\n", console.Quoted(o.Help))
			}
		}
	}
	return out.String()
}
