package main

import (
	"os"
	"strings"
	"testing"
)

// The table can be read, and every name that the page lists is one of its rows.
func TestListNamesRows(t *testing.T) {
	rows, err := readRows("rows.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/from-slurm.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, r := range rows {
		known[r.name] = true
	}
	listed := listedRows(string(page))
	if len(rows) < 72 || len(listed) == 0 {
		t.Errorf("%d rows, %d of them listed", len(rows), len(listed))
	}
	for name := range listed {
		if !known[name] {
			t.Errorf("docs/from-slurm.md lists %q, which is no row of rows.txt", name)
		}
	}
}

func TestRowsRefused(t *testing.T) {
	for _, text := range []string{"no colon", "Upper: true", "twice: true\ntwice: false", "user root extra: true"} {
		path := t.TempDir() + "/rows"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if rows, err := readRows(path); err == nil {
			t.Errorf("%q reads as %v", text, rows)
		}
	}
}

func TestListedRows(t *testing.T) {
	page := "## Before\n\n| a | `not` |\n\n" + listHeading + "\n\n| input | why | rows |\n|---|---|---|\n| `x` | y | `one`, `two-2` |\ntext `three`\n\n## After\n\n| a | `four` |\n"
	listed := listedRows(page)
	if len(listed) != 2 || !listed["one"] || !listed["two-2"] {
		t.Errorf("%v", listed)
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		slurm, gleaner string
		want           bool
	}{
		{"a\nexit status 0", "a\nexit status 0", true},
		{"a\nexit status 0", "a\nexit status 1", false},
		{"sbatch: error: Invalid --time specification\nx", "sbatch: error: Invalid --time specification: type minutes\nx", true},
		{"sbatch: error: Invalid --time specification", "sbatch: error: Invalid --times specification", false},
		{"x", "squeue: error: look there\nx", true},
		{"x", "look there\nx", false},
		{"x\ny", "x", false},
		{"", "squeue: error: a remark", false}, // there is no empty line in it
	} {
		if got := same(c.slurm, c.gleaner); got != c.want {
			t.Errorf("Slurm %q, Gleaner %q: %v", c.slurm, c.gleaner, got)
		}
	}
}

func TestNormal(t *testing.T) {
	got := normal("1001_[1-3] slurm-1001.out x00001001 11001 2026-11-24T20:00:00 1-00:00:05 /here/in/x 1795550570 1002  \n\n\nend",
		[]string{"1001", "1002"}, map[string]string{"/here/in": "HERE"})
	want := "JOB1_[1-3] slurm-JOB1.out xJOB1 11001 TIME 1-SHORT HERE/x EPOCH JOB2\nend"
	if got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	if strings.Contains(normal("port 17001", []string{"1700"}, nil), "JOB") {
		t.Error("a part of a number is none")
	}
}
