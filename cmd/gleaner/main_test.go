package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// TestTables looks at every option of every command: names and letters are
// its own, and a refusal says what to do.
func TestTables(t *testing.T) {
	for _, command := range commands() {
		if command.Summary == "" || command.Run == nil || len(command.ExitStatus) == 0 {
			t.Errorf("%s lacks a summary, its exit statuses or what it does", command.Name)
		}
		for _, often := range command.Often {
			if !slices.ContainsFunc(command.Table(), func(o option.Option) bool { return o.Long == often && o.Help != "" }) {
				t.Errorf("%s: the short help names --%s, which is none of its options", command.Name, often)
			}
		}
		names, letters := map[string]bool{}, map[byte]bool{}
		for _, option := range command.Table() {
			for _, name := range option.Names() {
				if names[name] || name == "" || strings.ContainsAny(name, "= ") {
					t.Errorf("%s: --%s is there twice, or no name", command.Name, name)
				}
				names[name] = true
			}
			if option.Short != 0 && letters[option.Short] {
				t.Errorf("%s: -%c is there twice", command.Name, option.Short)
			}
			letters[option.Short] = true
			if !onlyOne(option.Help, option.Later, option.Ignored) {
				t.Errorf("%s: --%s needs a help text, a remedy or a reason why it has no effect, and one of them only", command.Name, option.Long)
			}
			if option.OptionalArgument && option.Argument == "" {
				t.Errorf("%s: --%s has no argument that could be left out", command.Name, option.Long)
			}
		}
	}
}

// onlyOne reports whether one of the texts is not empty.
func onlyOne(texts ...string) bool {
	return len(slices.DeleteFunc(texts, func(text string) bool { return text == "" })) == 1
}

func TestDispatch(t *testing.T) {
	for line, want := range map[string]struct {
		text   string
		status int
	}{
		"gleaner --version":           {"gleaner " + version, 0},
		"gleaner help sbatch":         {"Usage: gsubmit [options]", 0},
		"gleaner help control":        {"Usage: gcontrol", 0},
		"gleaner help help":           {"there is no command \"help\"", 1},
		"gleaner sumbit x":            {`gleaner: error: there is no command "sumbit"; did you mean submit?`, 1},
		"gcontrol shwo job":           {"invalid keyword: shwo\ngcontrol: error: did you mean gcontrol show?", 1},
		"gqueue 12":                   {"A job is chosen with --jobs=12", 1},
		"gleaner":                     {"submit a batch script", 0},
		"gleaner bogus":               {`gleaner: error: there is no command "bogus"; the commands are: submit`, 1},
		"gsubmit --version":           {"gleaner " + version, 0},
		"/x/gcancel --usage":          {"Usage: gcancel [options]", 0},
		"gleaner run --usage":         {"Usage: grun [options]", 0},
		"gleaner submit --help=all":   {"Slurm options not supported", 0},
		"gsubmit --help":              {"All options: gsubmit --help=all", 0},
		"gsubmit --help=bogus":        {"--help=bogus: type --help, or --help=all", 255},
		"gqueue --help=all":           {"--help", 1},
		"gcancel --vers":              {"gleaner " + version, 0},
		"renamed submit --bogus-word": {"gsubmit: unrecognized option '--bogus-word'", 255},
	} {
		got := command(t, "unix:///nowhere", "", nil, strings.Fields(line)...)
		if got.Status != want.status || !strings.Contains(got.Stdout+got.Stderr, want.text) {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
}

// TestShortHelp: what a command with many options prints at first fits on a
// screen of 24 lines and 80 columns, examples first.
func TestShortHelp(t *testing.T) {
	for _, command := range commands() {
		if len(command.Often) == 0 {
			continue
		}
		help, _, status := typed(t, t.Context(), nil, command.Program()+" --help")
		full, _, _ := typed(t, t.Context(), nil, command.Program()+" --help=all")
		lines := strings.Split(help, "\n")
		if status != 0 || strings.Count(help, "\n") > 24 || len(full) < 2*len(help) {
			t.Errorf("%s: status %d, %d lines:\n%s", command.Program(), status, strings.Count(help, "\n"), help)
		}
		if example, usage := strings.Index(help, command.Examples[0].Command), strings.Index(help, "Usage:"); example < 0 || example > usage {
			t.Errorf("%s: the help does not begin with examples:\n%s", command.Program(), help)
		}
		for _, line := range lines {
			if len(line) > 80 {
				t.Errorf("%s: a line of %d letters: %s", command.Program(), len(line), line)
			}
		}
	}
}
