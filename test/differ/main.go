// Command differ types the same lines into Slurm and into Gleaner and compares
// what they answer. The lines are rows.txt. A row that differs is an error, unless
// docs/from-slurm.md lists it by its name, with the reason; so is a row that is
// listed and does not differ. It needs root, and a folder in which Slurm is
// installed (peer.sh).
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	var t typing
	var document, only string
	flag.StringVar(&t.peer, "peer", "", "folder in which Slurm is installed")
	flag.StringVar(&t.sources, "sources", "test/differ", "folder with rows.txt and the scripts")
	flag.StringVar(&document, "document", "docs/from-slurm.md", "page that lists what may differ")
	flag.StringVar(&only, "only", "", "run the rows whose names match this regular expression")
	flag.StringVar(&t.directory, "said", "", "type nothing: compare what an earlier run left in this folder")
	flag.StringVar(&t.user, "user", "differ", "name of the user who types; nobody else on this machine may have it")
	flag.Parse()
	differs, err := differ(&t, document, only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "differ:", err)
	}
	if err != nil || differs {
		os.Exit(1)
	}
}

// differ reports whether a row differs that may not.
func differ(t *typing, document, only string) (bool, error) {
	rows, err := readRows(t.sources + "/rows.txt")
	if err != nil {
		return false, err
	}
	page, err := os.ReadFile(document)
	if err != nil {
		return false, err
	}
	listed := listedRows(string(page))
	wanted, err := regexp.Compile(only)
	if err != nil {
		return false, fmt.Errorf("-only: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return !wanted.MatchString(r.name) })
	if t.directory != "" {
		return compare(t, rows, listed), nil
	}
	if reason := t.missing(); reason != "" {
		fmt.Printf("differ: left out: %s\n", reason)
		return false, nil
	}
	rows = t.typeable(rows)
	if err := t.typeAll(rows); err != nil {
		return false, err
	}
	return compare(t, rows, listed), nil
}

// compare prints every row that differs, and reports whether one may not.
func compare(t *typing, rows []row, listed map[string]bool) bool {
	equal, known, wrong := 0, 0, 0
	for _, r := range rows {
		slurm, gleaner := t.answer("slurm", r), t.answer("gleaner", r)
		switch alike := same(slurm, gleaner); {
		case alike && !listed[r.name]:
			equal++
		case alike:
			wrong++
			fmt.Printf("== %s: both answer the same: take it off the list\n", r.name)
		case listed[r.name]:
			known++
		default:
			wrong++
			fmt.Printf("== %s: %s\n%s", r.name, r.typed, sideBySide(slurm, gleaner))
		}
	}
	fmt.Printf("differ: %d rows: %d equal, %d listed as different, %d to mend or to list\n", len(rows), equal, known, wrong)
	return wrong > 0
}

// sideBySide marks what only one of both said, and leaves out what both did.
func sideBySide(slurm, gleaner string) string {
	a, b := strings.Split(strings.TrimSuffix(slurm, "\n"), "\n"), strings.Split(strings.TrimSuffix(gleaner, "\n"), "\n")
	var text strings.Builder
	only := func(mark string, ours, theirs []string) {
		for _, line := range ours {
			if !slices.Contains(theirs, line) {
				fmt.Fprintf(&text, "   %s %s\n", mark, line)
			}
		}
	}
	only("Slurm:  ", a, b)
	only("Gleaner:", b, a)
	if text.Len() == 0 {
		return "   the same lines in another order\n"
	}
	return text.String()
}
