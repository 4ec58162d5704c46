package jobspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

func scriptOptions(command *option.Command, script []byte) (option.Values, error) {
	found, err := scriptDirectives(command, script, "")
	if err != nil {
		return nil, err
	}
	return found.values(), nil
}

func TestScriptOptions(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   option.Values
	}{
		"both prefixes, all forms": {
			"#!/bin/sh\n#SBATCH -o a.out\n#GSUB --error=b.err --time 5\n# a remark\n\n#SBATCH -n4 -N2\necho\n",
			option.Values{"output": {"a.out"}, "error": {"b.err"}, "time": {"5"}, "ntasks": {"4"}, "nodes": {"2"}},
		},
		"stops at the first command": {
			"#!/bin/sh\n#GSUB -n1\ntrue\n#GSUB -n2\n",
			option.Values{"ntasks": {"1"}},
		},
		"blanks before a command do not hide it": {
			"#!/bin/sh\n   true\n#GSUB -n2\n", option.Values{},
		},
		"an indented comment does not end the search": {
			"#!/bin/sh\n   # x\n#GSUB -n2\n", option.Values{"ntasks": {"2"}},
		},
		"quotes, escapes and comments": {
			"#!/bin/sh\n#SBATCH -J \"a 'b' \\\" c\" --comment='x # \"y\"' # rest -n 9\n#SBATCH -o a\\ b#c\n",
			option.Values{"job-name": {"a 'b' \" c"}, "comment": {"x # \"y\""}, "output": {"a b#c"}},
		},
		"what only looks like one": {
			"#!/bin/sh\n##SBATCH -n1\n # SBATCH -n2\n#SBATCHES -n3\n#sbatch -n4\n#GSUB\n", option.Values{},
		},
		"a carriage return at the end of a line": {
			"#!/bin/sh\r\n#SBATCH -n3\r\n", option.Values{"ntasks": {"3"}},
		},
	} {
		got, err := scriptOptions(scriptCommand(), []byte(test.script))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestScriptOptionsRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"#SBATCH --partiton=x":    "line 3 of the script: #SBATCH: unrecognized option '--partiton'; did you mean '--partition'?",
		"#GSUB --wrap=x":          "line 3 of the script: #GSUB: option '--wrap' may be given on the command line only",
		"#GSUB -V":                "line 3 of the script: #GSUB: option '-V' may be given on the command line only",
		"#SBATCH hetjob":          "line 3 of the script: #SBATCH: a heterogeneous job (hetjob, or options after a colon) is not supported: submit the components",
		"#SBATCH -n1 : -n2":       "line 3 of the script: #SBATCH: a heterogeneous job",
		"#SBATCH -J 'x":           "line 3 of the script: #SBATCH: a quote is not closed: -J 'x",
		"#SBATCH -n1 word":        "line 3 of the script: #SBATCH: 'word' is not an option",
		"#SBATCH --output":        "line 3 of the script: #SBATCH: option '--output' requires an argument",
		"#SBATCH --usage":         "line 3 of the script: #SBATCH: option '--usage' may be given on the command line only",
		"#SBATCH --export-file=x": "line 3 of the script: #SBATCH: --export-file is not supported: ",
	} {
		_, err := scriptOptions(scriptCommand(), []byte("#!/bin/sh\n# x\n"+line+"\n"))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", line, err, want)
		}
	}
}

// What harms nobody is accepted, and told of.
func TestScriptOptionsWithoutEffect(t *testing.T) {
	for _, line := range []string{
		"--hint=nomultithread", "--mincpus 2", "-O", "-s", "--ntasks-per-socket=1", "--get-user-env", "--get-user-env=10L",
		"--mincpus=2", "-S 1", "-B 1:2:1", "--reboot", "--propagate", "--propagate=STACK", "-k", "--profile=none", "--threads-per-core=1", "--oom-kill-step=1",
	} {
		values, err := scriptOptions(scriptCommand(), []byte("#!/bin/sh\n#SBATCH "+line+"\n"))
		if words := scriptCommand().Ignored(values); err != nil || len(words) != 1 || !strings.Contains(words[0], " is accepted and has no effect: ") {
			t.Errorf("%s: %q, %v", line, words, err)
		}
	}
}

// What sbatch passes over in silence is warned of, by line and script.
func TestScriptWarnings(t *testing.T) {
	for script, want := range map[string]string{
		"#!/bin/sh\n#SBATCH -n1\ntrue\n":                          "",
		"#!/bin/sh\ntrue\n#SBATCH -n1\n":                          "line 3 of a.sh is not read: options must come before the first command",
		"#!/bin/sh\ntrue\n#SBATCH -n1\n# x\n#GSUB -n2\n#GSUB -n3": "line 3 of a.sh and 2 more are not read: options must come before the first command",
		"#!/bin/sh\ncat << E > b.sh\n#!/bin/sh\n#SBATCH -n1\nE\n": "",
		"#!/bin/sh\n#sbatch -n1\n":                                `line 2 of a.sh is a comment: begin it with "#SBATCH" and a blank to give options`,
		"#!/bin/sh\n#GSUB: --time=5\n":                            `line 2 of a.sh is a comment: begin it with "#GSUB" and a blank to give options`,
		"#!/bin/sh\n#SBATCH-n5\n":                                 `line 2 of a.sh is a comment: begin it with "#SBATCH" and a blank to give options`,
		"#!/bin/sh\n#PBS -n5\n#BSUB -x\n":                         "",
		"#!/bin/sh\n##SBATCH -n5\n# SBATCH -n5\n#SBATCHES -n5\n":  "",
	} {
		found, err := scriptDirectives(scriptCommand(), []byte(script), "a.sh")
		if err != nil || strings.Join(found.warnings, "\n") != want {
			t.Errorf("%q: got %q, %v, want %q", script, found.warnings, err, want)
		}
		foreign := ""
		if strings.Contains(script, "#PBS") {
			foreign = "line 2 of a.sh"
		}
		if found.foreign != foreign {
			t.Errorf("%q: foreign is %q, want %q", script, found.foreign, foreign)
		}
	}
}

// FuzzScriptOptions: whatever a script holds is read or refused with the
// number of a line in it.
func FuzzScriptOptions(f *testing.F) {
	f.Add("#!/bin/sh\n#SBATCH -n4 --array=0-9%2\n#GSUB --x\n")
	f.Add("#SBATCH \"\n#GSUB -o\n")
	command := scriptCommand()
	f.Fuzz(func(t *testing.T, script string) {
		if _, err := scriptOptions(command, []byte(script)); err != nil && !strings.HasPrefix(err.Error(), "line ") {
			t.Fatalf("%q: %v", script, err)
		}
	})
}
