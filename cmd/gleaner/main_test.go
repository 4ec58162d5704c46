package main

import (
	"strings"
	"testing"
)

// TestTables looks at every option of every command: names and letters are
// its own, and whoever is refused learns what to do.
func TestTables(t *testing.T) {
	for _, command := range commands() {
		if command.Summary == "" || command.Run == nil || len(command.ExitStatus) == 0 {
			t.Errorf("%s lacks a summary, its exit statuses or what it does", command.Name)
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
			if (option.Help == "") == (option.Later == "") {
				t.Errorf("%s: --%s needs a help text or a remedy, and not both", command.Name, option.Long)
			}
			if option.OptionalArgument && option.Argument == "" {
				t.Errorf("%s: --%s has no argument that could be left out", command.Name, option.Long)
			}
		}
	}
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
		"gleaner submit --help":       {"Known from Slurm and refused", 0},
		"gcancel --vers":              {"gleaner " + version, 0},
		"renamed submit --bogus-word": {"gsubmit: unrecognized option '--bogus-word'", 255},
	} {
		got := command(t, "unix:///nowhere", "", nil, strings.Fields(line)...)
		if got.status != want.status || !strings.Contains(got.stdout+got.stderr, want.text) {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
}
