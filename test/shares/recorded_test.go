package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// record writes what a cluster of four GPUs would have told: chemistry has all of
// it for ten seconds, then physics takes its three fifths at once.
func record(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const begin = 1_700_000_000
	write("config", "PriorityDecayHalfLife   = 00:01:00\nPriorityMaxAge          = 7-00:00:00\n")
	write("nodes.json", `{"sinfo": [], "nodes": [{"gleaner": {"devices": [{}, {}, {}]}}, {"gleaner": {"devices": [{}, {}]}}]}`)
	var jobs []string
	job := func(account string, submit, start, end int) {
		jobs = append(jobs, fmt.Sprintf(`{"account": %q, "submit_time": %d, "start_time": %d, "end_time": %d, "gleaner": {"allocation": [{"devices": [{}]}]}}`,
			account, begin+submit, begin+start, begin+end))
	}
	for second := range 30 {
		for gpu := range 5 {
			account := "chemistry"
			if second >= 10 && gpu < 3 {
				account = "physics"
			}
			job(account, map[string]int{"chemistry": 0, "physics": 10}[account], second, second+1)
		}
	}
	job("physics", 10, 31, 32)
	job("chemistry", 0, 31, 32)
	write("jobs.json", `{"jobs": [`+strings.Join(jobs, ",")+`]}`)
	for second := range 33 {
		write(fmt.Sprintf("shares/%d500.json", begin+second), fmt.Sprintf(`{"shares": [
			{"name": "root", "account": "root", "parent": "", "type": [], "shares": 1, "usage": 9},
			{"name": "chemistry", "account": "chemistry", "parent": "root", "type": [], "shares": 40, "usage": 40},
			{"name": "eve", "account": "chemistry", "parent": "chemistry", "type": ["USER"], "shares": null, "usage": 40},
			{"name": "physics", "account": "physics", "parent": "root", "type": [], "shares": 60, "usage": %d}]}`, max(second-10, 0)*4))
	}
	return directory
}

// TestRecordedIsWhatWasTold: who ran, who waited and what was used, second by
// second, as the cluster's own commands have it.
func TestRecordedIsWhatWasTold(t *testing.T) {
	s, err := recorded(record(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.labs != [2]lab{{"physics", 60}, {"chemistry", 40}} || s.gpus != 5 || s.halfLifeS != 60 || len(s.samples) != 33 || s.jobs != [2]int{61, 91} {
		t.Errorf("read %v, %d GPUs, half-life %d s, %d samples, %v jobs", s.labs, s.gpus, s.halfLifeS, len(s.samples), s.jobs)
	}
	for at, want := range map[int]sample{
		0:  {gpus: [2]int{0, 5}, waiting: [2]int{0, 86}, used: [2]float64{0, 40}},
		9:  {atMS: 9000, gpus: [2]int{0, 5}, waiting: [2]int{0, 41}, used: [2]float64{0, 40}},
		20: {atMS: 20000, gpus: [2]int{3, 2}, waiting: [2]int{28, 19}, used: [2]float64{40, 40}},
		32: {atMS: 32000, used: [2]float64{88, 40}},
	} {
		if s.samples[at] != want {
			t.Errorf("sample %d is %+v, want %+v", at, s.samples[at], want)
		}
	}
	if first, last, err := s.contended(); err != nil || first != 10 || last != 30 {
		t.Errorf("both wait from %d to %d, %v", first, last, err)
	}
	mustBeSound(t, s)
	var out strings.Builder
	if err := s.report(&out, 0.08); err == nil || !strings.Contains(err.Error(), "8.0 points") && !strings.Contains(err.Error(), "10.0 points") {
		t.Errorf("usage of 50 to 66 percent passes for 60: %v\n%s", err, out.String())
	}
	if err := s.report(&out, 0.12); err != nil {
		t.Error(err)
	}
}

// TestRecordedInPart: what is missing is named.
func TestRecordedInPart(t *testing.T) {
	for name, spoil := range map[string]func(directory string) error{
		"nodes.json": func(d string) error { return os.Remove(filepath.Join(d, "nodes.json")) },
		"jobs.json":  func(d string) error { return os.Truncate(filepath.Join(d, "jobs.json"), 20) },
		"samples":    func(d string) error { return os.RemoveAll(filepath.Join(d, "shares")) },
		"config":     func(d string) error { return os.Truncate(filepath.Join(d, "config"), 0) },
		"accounts": func(d string) error {
			return os.WriteFile(filepath.Join(d, "shares", "1700000000000.json"), []byte(`{"shares": []}`), 0o644)
		},
	} {
		directory := record(t)
		if err := spoil(directory); err != nil {
			t.Fatal(err)
		}
		if _, err := recorded(directory); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
