package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// commands are the packages of cmd/gleaner that are a user command each, with
// what each exports apart from its Command.
var commands = map[string][]string{
	"acct": nil, "acctmgr": nil, "agent": nil, "alloc": nil, "attach": nil, "bcast": nil, "cancel": nil, "copy": nil, "diag": nil, "eff": nil, "forward": nil, "hold": nil, "image": nil, "info": nil, "lend": nil, "logs": nil, "prio": nil, "queue": nil, "reclaim": nil, "release": nil, "report": nil, "run": nil, "setup": nil, "share": nil, "stat": nil, "submit": nil,
	"control": {"EntityNames", "VerbNames"}, // for the shells' completion
	"dev":     nil, "doctor": nil, "simulate": nil,
}

// floors are the other rooms of cmd/gleaner, each above those that it imports.
var floors = []string{"format", "option", "console", "client", "local", "show", "past", "table", "clusterfile", "slurmconf", "account", "jobspec", "session", "steps", "allocation", "replay"}

// TestCommandsStandAlone: a command is a room with one door. Only main, which
// lists them, imports commands; what two of them need lies on a floor below.
func TestCommandsStandAlone(t *testing.T) {
	const house = "cmd/gleaner/"
	seen := 0
	for _, p := range packages(t) {
		room, ours := strings.CutPrefix(strings.TrimPrefix(p.ImportPath, module), house)
		if !ours {
			continue
		}
		extra, isCommand := commands[room]
		floor := slices.Index(floors, room)
		switch {
		case isCommand:
			seen++
			checkDoor(t, p, append(slices.Clone(extra), "Command"))
		case floor < 0 && room != "clienttest":
			t.Errorf("%s is neither a command nor a floor below them: put it on one of the lists of %s", p.ImportPath, "test/arch/commands_test.go")
		}
		for _, imported := range p.Imports {
			target, inside := strings.CutPrefix(strings.TrimPrefix(imported, module), house)
			if !inside {
				continue
			}
			if _, command := commands[target]; command {
				t.Errorf("%s imports the command %s: move what both need below them", room, target)
			}
			if target == "clienttest" {
				t.Errorf("%s imports clienttest: that is for tests", room)
			}
			if floor >= 0 && slices.Index(floors, target) >= floor {
				t.Errorf("%s imports %s, which is above it", room, target)
			}
		}
	}
	if seen != len(commands) {
		t.Errorf("%d of %d commands were found", seen, len(commands))
	}
}

// checkDoor fails for what a package exports apart from the names given.
func checkDoor(t *testing.T, p listed, door []string) {
	t.Helper()
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range topNames(file) {
			if ast.IsExported(declared) && !slices.Contains(door, declared) {
				t.Errorf("%s exports %s: a command's room has one door, Command", p.ImportPath, declared)
			}
		}
	}
}

// topNames are the names that a file declares at its top, but for methods.
func topNames(file *ast.File) []string {
	var names []string
	for _, declared := range file.Decls {
		switch declared := declared.(type) {
		case *ast.FuncDecl:
			if declared.Recv == nil {
				names = append(names, declared.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}
