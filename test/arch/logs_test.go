package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// logMethods are those of a slog.Logger that take a message and pairs; the
// number is the position of the message.
var logMethods = map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "With": -1}

// logCall is one call of them.
type logCall struct {
	where   token.Position
	method  string
	message string
	keys    []string
}

// logCalls finds the calls in a file: of anything called log or logger.
func logCalls(t *testing.T, path string) []logCall {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var calls []logCall
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		at, known := logMethods[selector.Sel.Name]
		if known && isLog(selector.X) && len(call.Args) > at {
			found := logCall{where: files.Position(call.Pos()), method: selector.Sel.Name}
			if at >= 0 {
				found.message = literal(call.Args[at])
			}
			for i := at + 1; i < len(call.Args); i += 2 {
				if key := literal(call.Args[i]); key != "" {
					found.keys = append(found.keys, key)
				}
			}
			calls = append(calls, found)
		}
		return true
	})
	return calls
}

// isLog reports whether an expression is a logger, by its name.
func isLog(x ast.Expr) bool {
	name := ""
	switch x := x.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	return name == "log" || name == "logger" || name == "Logger"
}

func literal(x ast.Expr) string {
	constant, ok := x.(*ast.BasicLit)
	if !ok || constant.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(constant.Value)
	return text
}

// synonyms are other words for the keys of docs/logs.md, with the one to use:
// who follows a job through the logs of several daemons looks for one word.
var synonyms = map[string]string{
	"name": "peer, node or device", "err": "error", "job_id": "job", "jobid": "job", "id": "job, peer or request_id", "part": "job and epoch", "run": "epoch",
	"node_name": "node", "nodename": "node", "host": "node", "hostname": "node", "peer_name": "peer", "request": "request_id", "req": "request_id",
	"duration": "took", "elapsed": "took", "why": "reason", "code": "exit_code", "message": "detail", "text": "detail", "dir": "directory", "addr": "address",
}

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// TestLogsSayTheSame: the same thing has the same key in every line of a
// daemon's log, and each warning and error says what an operator does next:
// after a colon, a semicolon or a comma.
func TestLogsSayTheSame(t *testing.T) {
	calls := 0
	for _, p := range packages(t) {
		if !within(strings.TrimPrefix(p.ImportPath, module), "ctld", "noded", "cmd/gctld", "cmd/gnoded") {
			continue
		}
		for _, name := range p.GoFiles {
			for _, call := range logCalls(t, filepath.Join(p.Dir, name)) {
				calls++
				checkLogCall(t, call)
			}
		}
	}
	if calls < 50 {
		t.Errorf("only %d calls were found: the search is broken", calls)
	}
}

func checkLogCall(t *testing.T, call logCall) {
	t.Helper()
	for _, key := range call.keys {
		if meant, other := synonyms[key]; other {
			t.Errorf("%s: the key %q is called %s everywhere else (docs/logs.md)", call.where, key, meant)
		} else if !snakeCase.MatchString(key) {
			t.Errorf("%s: the key %q should be words in lower case joined by _", call.where, key)
		}
	}
	if (call.method == "Warn" || call.method == "Error") && call.message != "" && !strings.ContainsAny(call.message, ":;,") {
		t.Errorf("%s: %q does not say what an operator does next", call.where, call.message)
	}
	if first := call.message; first != "" && strings.ToLower(first[:1]) != first[:1] && !strings.HasPrefix(first, "GPU") {
		t.Errorf("%s: %q should begin in lower case", call.where, call.message)
	}
}
