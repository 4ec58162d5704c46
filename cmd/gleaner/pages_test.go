package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every option of every command is in its manual page.
func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	if _, stderr, status := typed(t, t.Context(), nil, "gleaner man --dir="+dir); status != 0 {
		t.Fatal(stderr)
	}
	for _, command := range commands() {
		if command.Hidden {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, pageName(command)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		page := strings.ReplaceAll(string(text), `\-`, "-")
		for _, option := range command.Table() {
			if !option.Hidden && !strings.Contains(page, "--"+option.Long) {
				t.Errorf("%s: --%s is missing", pageName(command), option.Long)
			}
		}
		for _, section := range []string{".TH", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"} {
			if !strings.Contains(page, section) {
				t.Errorf("%s: no %s", pageName(command), section)
			}
		}
		if printed, _, _ := typed(t, t.Context(), nil, "gleaner man "+command.Name); printed != string(text) {
			t.Errorf("gleaner man %s prints another page than it writes", command.Name)
		}
	}
	overview, err := os.ReadFile(filepath.Join(dir, "gleaner.1"))
	if err != nil || !strings.Contains(string(overview), "gqueue") {
		t.Errorf("the page of gleaner names no gqueue: %v", err)
	}
	for _, line := range []string{"gleaner man nosuch", "gleaner man --dir=/dev/null/x", "gleaner man a b", "gleaner man --dir=x y"} {
		if _, _, status := typed(t, t.Context(), nil, line); status != 1 {
			t.Errorf("%s: status %d", line, status)
		}
	}
}

// The pages hold nothing that groff stumbles over.
func TestManualPagesFormat(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("needs groff: not installed")
	}
	dir := t.TempDir()
	if _, stderr, status := typed(t, t.Context(), nil, "gleaner man --dir="+dir); status != 0 {
		t.Fatal(stderr)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		out, err := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-z", page).CombinedOutput()
		if err != nil || strings.Contains(string(out), "error") || strings.Contains(string(out), "macro") {
			t.Errorf("%s: %v %s", filepath.Base(page), err, out)
		}
	}
}

// bash accepts the script, and offers what it should.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash: not installed")
	}
	script, stderr, status := typed(t, t.Context(), nil, "gleaner completion bash")
	if status != 0 {
		t.Fatal(stderr)
	}
	path := filepath.Join(t.TempDir(), "gleaner.bash")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), bash, "-n", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// Stand-ins for the commands that the script asks.
	answers := `gqueue() { echo 101; echo 102; }; timeout() { shift; "$@"; }
		ginfo() { case "$*" in *%N*) echo n1; echo n2 ;; *%R*) echo main ;; *%G*) echo "gpu:a100:4,gpu:h200:2" ;; esac; }; `
	for _, c := range []struct {
		words string // the last one is completed
		want  []string
		not   string
	}{
		{"gqueue --no", []string{"--noconvert", "--nodelist", "--noheader"}, "--name"},
		{"gleaner q", []string{"queue"}, "info"},
		{"gleaner info --su", []string{"--summarize"}, "--sort"},
		{"/opt/bin/ginfo --for", []string{"--format"}, "--Format"},
		{"gcontrol re", []string{"release", "requeue"}, "show"},
		{"gleaner control sh", []string{"show"}, "hold"},
		{"gleaner completion ", []string{"bash", "zsh", "fish"}, "queue"},
		{"gsubmit --part", []string{"--partition"}, ""},
		{"gsubmit --export-f", nil, "--export-file"},
		{"gcontrol show ", []string{"job", "node", "partition", "config", "hostnames"}, "hold"},
		{"gcontrol show no", []string{"node"}, "job"},
		{"gcontrol show job 1", []string{"101", "102"}, "n1"},
		{"gleaner control show node n", []string{"n1", "n2"}, "101"},
		{"gcontrol hold ", []string{"101", "102"}, "show"},
		{"gcancel ", []string{"101", "102"}, ""},
		{"gforward 1", []string{"101", "102"}, "n1"},
		{"gforward --node ", []string{"n1", "n2"}, "101"},
		{"gforward --node = n", []string{"n1", "n2"}, "101"},
		{"gcancel 101 1", []string{"101", "102"}, ""},
		{"gqueue -p m", []string{"main"}, ""},
		{"gqueue --partition = ma", []string{"main"}, ""},
		{"gsubmit --partition =", []string{"main"}, ""},
		{"gsubmit --nodelist n", []string{"n1", "n2"}, "main"},
		{"gqueue --states RU", []string{"RUNNING"}, "PENDING"},
		{"ginfo -t i", []string{"idle"}, "PENDING"},
		{"ginfo -t re", []string{"reclaimed"}, "PENDING"},
		{"greclaim ", []string{"n1", "n2"}, "101"},
		{"greclaim n1 --no", []string{"--no-wait"}, "--wait"},
		{"gleaner release n", []string{"n1", "n2"}, "101"},
		{"gdoctor --role c", []string{"controller"}, "user"},
		{"gcontrol update ", []string{"JobId=", "NodeName="}, "job"},
		{"gcontrol update Jo", []string{"JobId="}, "NodeName="},
		{"gcontrol update JobId =", []string{"101", "102"}, ""},
		{"gleaner control update JobId = 1", []string{"101", "102"}, "n1"},
		{"gcontrol update JobId = 101 Ti", []string{"TimeLimit="}, "State="},
		{"gcontrol update JobId = 101 Partition = m", []string{"main"}, ""},
		{"gcontrol update NodeName = n", []string{"n1", "n2"}, "101"},
		{"gcontrol update NodeName = n1 ", []string{"State=", "Reason="}, "TimeLimit="},
		{"gcontrol update NodeName = n1 State = DR", []string{"DRAIN"}, "n1"},
		{"gsubmit --gres =", []string{"gpu:", "gpu:a100:"}, ""},
		{"gsubmit --gpus a", []string{"a100:"}, "gpu:"},
		{"gcontrol show --det", []string{"--details"}, "show"},
	} {
		words := strings.Split(c.words, " ")
		program := answers + `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gleaner; printf '%s\n' "${COMPREPLY[@]}"`
		out, err := exec.CommandContext(t.Context(), bash, append([]string{"-c", program, "bash", path}, words...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		offered := strings.Fields(string(out))
		for _, want := range c.want {
			if !slices.Contains(offered, want) {
				t.Errorf("%q: %q is not offered, only %v", c.words, want, offered)
			}
		}
		if slices.Contains(offered, c.not) {
			t.Errorf("%q: %q is offered", c.words, c.not)
		}
	}
}

// The other shells' scripts name every command and option; where the shell is
// installed it must accept them.
func TestOtherCompletions(t *testing.T) {
	for shell, check := range map[string][]string{"zsh": {"-n"}, "fish": {"--no-execute"}} {
		script, stderr, status := typed(t, t.Context(), nil, "gleaner completion "+shell)
		if status != 0 {
			t.Fatal(stderr)
		}
		for _, command := range commands() {
			for _, option := range offered(command) {
				if !command.Hidden && !strings.Contains(script, option.Long) {
					t.Errorf("%s: %s --%s is missing", shell, command.Name, option.Long)
				}
			}
		}
		path := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if program, err := exec.LookPath(shell); err == nil {
			if out, err := exec.CommandContext(t.Context(), program, append(check, path)...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", shell, err, out)
			}
		}
	}
	if _, _, status := typed(t, t.Context(), nil, "gleaner completion tcsh"); status != 1 {
		t.Errorf("tcsh: status %d", status)
	}
}
