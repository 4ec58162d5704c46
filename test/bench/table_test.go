package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// filled is a table with two rounds on two sides, and one side missing.
func filled() *table {
	t := newTable(plans["quick"])
	t.add(0, apiEight, ours, 3000)
	t.add(0, apiEight, slurmPlain, 1000)
	t.add(1, apiEight, ours, 900) // the machine became slow for both
	t.add(1, apiEight, slurmPlain, 300)
	t.add(2, apiEight, ours, 5000) // no pair
	t.add(0, startBare, ours, 10, 30, 20)
	t.add(0, startBare, bareColumn, 16)
	t.missing(trueJobs, slurmTuned, "it would not")
	t.missing(startBare, slurmTuned, "it would not")
	return t
}

// Ratios are taken within rounds, so a drifting machine does not move them.
func TestRatioIsPaired(t *testing.T) {
	table := filled()
	if got := table.ratio(apiEight, slurmPlain); got != 3 {
		t.Errorf("ratio %v, want 3", got)
	}
	if got := table.ratio(startBare, bareColumn); got != 1.25 {
		t.Errorf("ratio of medians of one round %v, want 1.25", got)
	}
	if got := table.ratio(apiEight, slurmTuned); got != 0 {
		t.Errorf("ratio to a side without figures %v, want 0", got)
	}
	f := table.figures(apiEight, ours)
	if f == nil || f.Median != 3000 || f.Min != 900 || f.Max != 5000 || f.Runs != 3 {
		t.Errorf("figures %+v", f)
	}
}

func TestMedianAndThousands(t *testing.T) {
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v, want 2.5", got)
	}
	for want, got := range map[string]string{
		"0": thousands(0.4, 0), "999": thousands(999, 0), "1,000": thousands(1000, 0), "-1,234,567.9": thousands(-1234567.89, 1), "12.50": thousands(12.5, 2),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAims(t *testing.T) {
	verdicts := map[string]string{}
	for _, a := range filled().aims() {
		verdicts[a.What] = a.verdict()
	}
	for start, want := range map[string]string{
		"submit to first instruction at most 2 x":         "reached",
		"submit to first instruction at most 1/4":         "not measured",
		"submissions by API with 8 clients at least 3 x":  "reached",
		"jobs per second at least tuned Slurm's":          "not measured",
		"an array of a million tasks takes the memory of": "not measured",
	} {
		found := ""
		for what, verdict := range verdicts {
			if strings.HasPrefix(what, start) && !strings.HasSuffix(what, "tuned") {
				found = verdict
			}
		}
		if found != want {
			t.Errorf("%s: %q, want %q", start, found, want)
		}
	}
	slow := newTable(plans["quick"])
	slow.add(0, startBare, ours, 100)
	slow.add(0, startBare, bareColumn, 40)
	slow.add(0, startPrivate, ours, 116)
	slow.add(0, listFirstMany, ours, 100)
	for kill := range 100 { // one in fifty takes very long, two in fifty long
		slow.add(0, failoverSubmit, ours, map[int]float64{0: 7000, 50: 7000, 1: 4000, 51: 4000}[kill]+1)
	}
	missed := 0
	for _, a := range slow.aims() {
		for _, start := range []string{"submit to first instruction at most 2 x", "a job with a network of its own", "first line of the longer queue", "and at most 6 s at the 99th"} {
			if !strings.HasPrefix(a.What, start) {
				continue
			}
			missed++
			if a.verdict() != "MISSED" {
				t.Errorf("%+v: %s, want MISSED", a, a.verdict())
			}
		}
		if strings.HasPrefix(a.What, "a submission succeeds at most 3 s") && a.verdict() != "reached" {
			t.Errorf("%+v: %s, want reached", a, a.verdict())
		}
	}
	if missed != 4 {
		t.Errorf("%d aims were looked at", missed)
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for share, want := range map[float64]float64{0: 1, 0.2: 1, 0.21: 2, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(values, share); got != want {
			t.Errorf("%v of %v: %v, want %v", share, values, got, want)
		}
	}
}

// Every line is as long as the head, whatever is missing; the reason is there
// once; the JSON can be read back.
func TestReport(t *testing.T) {
	table := filled()
	var text, markdown, all bytes.Buffer
	if err := table.writeText(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	if len(lines) != len(table.rows)+2 {
		t.Errorf("%d lines for %d rows", len(lines), len(table.rows))
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) != utf8.RuneCountInString(lines[0]) {
			t.Errorf("%q is not as long as the head", line)
		}
	}
	if got := table.reasons(); len(got) != 1 || got[0] != "Slurm tuned: it would not" {
		t.Errorf("reasons %q", got)
	}
	if err := writeMarkdown(&markdown, machine{}, table, table.aims()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(markdown.String(), "| submit: API, 8 clients | /s | 3 | 3,000 (900–5,000) | 650 (300–1,000) |") {
		t.Errorf("Markdown:\n%s", markdown.String())
	}
	if err := writeJSON(&all, machine{}, table, table.aims()); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Rows []struct {
			Measure string
			Ratios  map[string]float64
		}
		Aims []aim
	}
	if err := json.Unmarshal(all.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Rows) != len(table.rows) || len(back.Aims) != len(table.aims()) || back.Rows[3].Ratios["Slurm"] != 3 {
		t.Errorf("JSON:\n%s", all.String())
	}
}

// What is mounted below a directory outlives an attempt to remove it.
func TestRemoveTreeLooksForMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: mounts")
	}
	directory := filepath.Join(t.TempDir(), "run")
	below := filepath.Join(directory, "below")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", below, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	mounted := true
	defer func() {
		if mounted {
			_ = unix.Unmount(below, 0)
		}
	}()
	precious := filepath.Join(below, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(directory); err == nil {
		t.Error("a directory with a mount in it was removed")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	if err := unix.Unmount(below, 0); err != nil {
		t.Fatal(err)
	}
	mounted = false
	if err := removeTree(directory); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(directory); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestSlurmIsLookedForWhereItIsSaid(t *testing.T) {
	for choice, want := range map[string]string{"off": "SLURM=off", t.TempDir(): "contrib/setup/debian.sh slurm fetches it"} {
		if _, err := findSlurm(choice, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", choice, err, want)
		}
	}
}

// Each figure is compared with the one that was measured beside it; those without one are
// left out.
func TestPairedDifferences(t *testing.T) {
	table := newTable(plans["quick"])
	table.add(0, startBare, ours, 100, 500)
	table.add(0, startPrivate, ours, 110, 512)
	table.add(1, startBare, ours, 50)
	table.add(1, startPrivate, ours, 59, 1000)
	table.add(2, startPrivate, ours, 7)
	if got := table.pairedDifferences(startPrivate, startBare, ours); !slices.Equal(got, []float64{10, 12, 9}) {
		t.Error(got)
	}
}
