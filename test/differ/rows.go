package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// row is one line of the table.
type row struct {
	name  string
	root  bool // root types it
	typed string
}

var rowForm = regexp.MustCompile(`^([a-z][a-z0-9-]*)( root)?: (.+)$`)

// readRows reads the table; names are unique.
func readRows(path string) ([]row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	seen := map[string]bool{}
	for number, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := rowForm.FindStringSubmatch(line)
		if parts == nil || seen[parts[1]] {
			return nil, fmt.Errorf("%s:%d: want \"NAME: COMMANDS\" or \"NAME root: COMMANDS\" with a name of its own: %s", path, number+1, line)
		}
		seen[parts[1]] = true
		rows = append(rows, row{name: parts[1], root: parts[2] != "", typed: parts[3]})
	}
	return rows, nil
}

// usesAccounting says that the answer comes from Slurm's accounting, or shows what it
// gives a job: an installation need not have it.
func (r row) usesAccounting() bool {
	return r.name == "queue-fields" || r.name == "control-show-tres" ||
		strings.HasPrefix(r.name, "past-") || strings.HasPrefix(r.name, "account-") || strings.HasPrefix(r.name, "share")
}

// listHeading opens the list of the page: tables whose last column names rows.
const listHeading = "## Different on purpose"

var listedName = regexp.MustCompile("`([a-z][a-z0-9-]*)`")

// listedRows are the names in the last column of the tables below the heading.
func listedRows(page string) map[string]bool {
	listed := map[string]bool{}
	_, list, _ := strings.Cut(page, listHeading+"\n")
	list, _, _ = strings.Cut(list, "\n## ")
	for _, line := range strings.Split(list, "\n") {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || len(cells) < 2 {
			continue
		}
		for _, name := range listedName.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			listed[name[1]] = true
		}
	}
	return listed
}
