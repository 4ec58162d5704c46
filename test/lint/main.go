// Command lint is staticcheck with the checks that look at one package at a time.
//
// Six of staticcheck's checks ask about every package below (does a function there
// return nil, is it deprecated, is it pure?), so that it analyses all libraries of
// the module first: five times the work. Those run in `make soak`, which runs the
// whole of staticcheck; all others run here, with staticcheck's own options and
// configuration.
package main

import (
	"os"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	command := lintcmd.NewCommand("lint")
	command.ParseFlags(os.Args[1:])
	for _, analyzer := range slices.Concat(simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers) {
		if !asksBelow(analyzer.Analyzer) {
			command.AddAnalyzers(analyzer)
		}
	}
	command.AddAnalyzers(unused.Analyzer)
	command.Run()
}

// asksBelow says whether an analyzer, or one that it needs, wants to know something of
// the packages that are imported. ctrlflow does too, and is content with what it knows
// by itself: which functions of the standard library never return.
func asksBelow(analyzer *analysis.Analyzer) bool {
	return analyzer != ctrlflow.Analyzer &&
		(len(analyzer.FactTypes) > 0 || slices.ContainsFunc(analyzer.Requires, asksBelow))
}
