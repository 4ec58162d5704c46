// Command lint analyses packages with the checks of staticcheck and of go vet that
// look at one package at a time.
//
//	go run ./test/lint [-tags LIST] PACKAGE...
//
// Some checks want to know something of every package below: does a function there
// return nil, is it deprecated, does it wrap fmt.Printf? For these, all libraries of the
// module are parsed and analysed first, some 1,500 packages. `make soak` runs the whole
// of staticcheck and of go vet. Here the types of a library come from what was compiled
// of it, and nothing else of it is read: a fifth of the work.
//
// It prints one line for each finding, and exits with 1 if there is one, and with 2 if a
// package could not be loaded.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/token"
	"os"
	"runtime/debug"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	debug.SetGCPercent(400) // it ends before collecting pays
	tags := flag.String("tags", "", "build tags, separated by commas")
	flag.Parse()
	findings, err := lint(*tags, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Printf("%s: %s (%s)\n", f.at, f.text, f.check)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// finding is what one check says about one place.
type finding struct {
	at          token.Position
	text, check string
}

// lint analyses the packages and their tests. Findings are sorted by place, each once: a
// file is in its package, and in the package's test too.
func lint(tags string, patterns []string) ([]finding, error) {
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.LoadSyntax | packages.NeedModule | packages.NeedForTest, Tests: true, BuildFlags: []string{"-tags", tags},
	}, patterns...)
	if err != nil {
		return nil, err
	}
	if packages.PrintErrors(loaded) > 0 {
		return nil, fmt.Errorf("the packages cannot be analysed")
	}
	var findings []finding
	var dead deadCode
	actions, err := analyze(loaded)
	if err != nil {
		return nil, err
	}
	for _, action := range actions {
		if action.Err != nil {
			return nil, fmt.Errorf("%s of %s: %w", action.Analyzer, action.Package, action.Err)
		}
		for _, d := range action.Diagnostics {
			findings = append(findings, finding{action.Package.Fset.Position(d.Pos), d.Message, action.Analyzer.Name})
		}
		if result, is := action.Result.(unused.Result); is {
			dead.add(action.Package.PkgPath, &result)
		}
	}
	findings = append(findings, dead.findings()...)
	slices.SortFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Offset, b.at.Offset), cmp.Compare(a.check, b.check))
	})
	return slices.Compact(findings), nil
}

// analyze runs the checks. A package with tests of its own is loaded twice: without and with
// them. All checks see the second, which has all files of the first; what is unused is asked
// of both.
func analyze(loaded []*packages.Package) ([]*checker.Action, error) {
	tested := map[string]bool{}
	for _, p := range loaded {
		if p.ForTest == p.PkgPath {
			tested[p.PkgPath] = true
		}
	}
	var whole, part []*packages.Package
	for _, p := range loaded {
		if tested[p.PkgPath] && p.ForTest == "" {
			part = append(part, p)
		} else {
			whole = append(whole, p)
		}
	}
	graph, err := checker.Analyze(checks(), whole, nil)
	if err != nil {
		return nil, err
	}
	rest, err := checker.Analyze([]*analysis.Analyzer{unused.Analyzer.Analyzer}, part, nil)
	if err != nil {
		return nil, err
	}
	return append(graph.Roots, rest.Roots...), nil
}

// checks are those of staticcheck that it runs by default, but for what asks about the
// packages below, and those of go vet.
func checks() []*analysis.Analyzer {
	all := vet()
	for _, check := range slices.Concat(simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers) {
		if !check.Doc.NonDefault && !asksBelow(check.Analyzer) {
			all = append(all, check.Analyzer)
		}
	}
	return append(all, unused.Analyzer.Analyzer)
}

// asksBelow says whether an analyzer, or one that it needs, wants to know something of
// the packages that are imported.
func asksBelow(analyzer *analysis.Analyzer) bool {
	return len(analyzer.FactTypes) > 0 || slices.ContainsFunc(analyzer.Requires, asksBelow)
}
