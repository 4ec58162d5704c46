package option

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// queue has the letters and names on which getopt_long's habits show.
func queue() *Command {
	return &Command{
		Name: "queue", Alias: "squeue", Usage: "[options]",
		Options: []Option{
			{Long: "all", Short: 'a'},
			{Long: "array", Short: 'r'},
			{Long: "noheader", Short: 'h'},
			{Long: "name", Short: 'n', Argument: "name", Aliases: []string{"jobname"}},
			{Long: "nodes", Short: 'N', InScript: true},
			{Long: "nodelist", Short: 'w', Argument: "nodes"},
			{Long: "format", Short: 'o', Argument: "format", InScript: true},
			{Long: "Format", Short: 'O', Argument: "format"},
			{Long: "nice", Argument: "n", OptionalArgument: true},
			{Long: "kill", Short: 'K', Argument: "0|1", OptionalArgument: true},
			{Long: "begin", Short: 'b', Argument: "time", Later: "submit it then", Environment: []string{"GQ_BEGIN"}},
			{Long: "me", Environment: []string{"GQ_ME", "SQ_ME"}},
			{Long: "partition", Short: 'p', Argument: "p", Environment: []string{"GQ_PARTITION", "SQ_PARTITION"}},
		},
	}
}

func canonical(settings []Setting) string {
	var words []string
	for _, setting := range settings {
		words = append(words, setting.Canonical())
	}
	return strings.Join(words, " ")
}

func TestNormalise(t *testing.T) {
	for _, test := range []struct {
		args, want, operands string
		stop                 bool
	}{
		{args: "-ahNO x", want: "--all= --noheader= --nodes= --Format=x"},
		{args: "-o%R", want: "--format=%R"},
		{args: "-n4 -n 5", want: "--name=4 --name=5"},
		{args: "-n -h", want: "--name=-h"},
		{args: "--name=x --name y", want: "--name=x --name=y"},
		{args: "--name= z", want: "--name=", operands: "z"},
		{args: "--nodel n1", want: "--nodelist=n1"},
		{args: "--job x", want: "--name=x"},
		{args: "--nice 5", want: "--nice=", operands: "5"},
		{args: "--nice=5", want: "--nice=5"},
		{args: "-K0 -K 1", want: "--kill=0 --kill=", operands: "1"},
		{args: "a --all b -h", want: "--all= --noheader=", operands: "a b"},
		{args: "a --all b -h", want: "", operands: "a --all b -h", stop: true},
		{args: "-a -- -h --x", want: "--all=", operands: "-h --x"},
		{args: "- -a", want: "--all=", operands: "-"},
		{args: "-h --usage", want: "--noheader= --usage="},
		{args: "--controller unix:///x", want: "--controller=unix:///x"},
		{args: "-V", want: "--version="},
	} {
		command := queue()
		command.StopAtOperand = test.stop
		settings, operands, err := command.Normalise(strings.Fields(test.args))
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		if got := canonical(settings); got != test.want || strings.Join(operands, " ") != test.operands {
			t.Errorf("%s:\n got %q operands %q\nwant %q operands %q", test.args, got, operands, test.want, test.operands)
		}
	}
}

func TestNormaliseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--bogus":      "unrecognized option '--bogus'",
		"--partitoin":  "unrecognized option '--partitoin'; did you mean '--partition'?",
		"-z":           "invalid option -- 'z'",
		"-az":          "invalid option -- 'z'",
		"--nod=2":      "option '--nod' is ambiguous; possibilities: '--nodes' '--nodelist'",
		"--all=x":      "option '--all' doesn't allow an argument",
		"--format":     "option '--format' requires an argument",
		"-ao":          "option requires an argument -- 'o'",
		"--=x":         "unrecognized option '--'",
		"--begin=now":  "--begin is not supported: submit it then",
		"-b now --bog": "--begin is not supported: submit it then",
	} {
		_, _, err := queue().Normalise(strings.Fields(args))
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

func TestNormaliseScript(t *testing.T) {
	for line, want := range map[string]string{
		"-N --format=x": "--nodes= --format=x",
		"-o x":          "--format=x",
		"--all":         "option '--all' may be given on the command line only",
		"-a":            "option '-a' may be given on the command line only",
		"--bogus":       "unrecognized option '--bogus'",
		"-b 12":         "--begin is not supported: submit it then",
		"x":             "'x' is not an option",
		"--help":        "option '--help' may be given on the command line only",
	} {
		settings, err := queue().NormaliseScript(strings.Fields(line))
		got := canonical(settings)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	environment := map[string]string{}
	lookup := func(name string) (string, bool) { value, set := environment[name]; return value, set }
	for _, test := range []struct {
		set  map[string]string
		want Values
	}{
		{map[string]string{"SQ_PARTITION": "a", "GQ_PARTITION": "b"}, Values{"partition": {"b"}}},
		{map[string]string{"SQ_ME": ""}, Values{"me": {""}}},
		{map[string]string{"SQ_PARTITION": ""}, Values{}},
		{map[string]string{"SQ_ME": "yes"}, Values{"me": {""}}},
		{map[string]string{"SQ_ME": "2"}, Values{"me": {""}}},
		{map[string]string{"SQ_ME": "0"}, Values{}},
		{map[string]string{"SQ_ME": "no"}, Values{}},
		{map[string]string{"GQ_ME": "0", "SQ_ME": "1"}, Values{"me": {""}}},
	} {
		environment = test.set
		got, err := queue().FromEnvironment(lookup)
		if err != nil || !cmp.Equal(got, test.want) {
			t.Errorf("%v: got %v, %v; want %v", test.set, got, err, test.want)
		}
	}
	environment = map[string]string{"GQ_BEGIN": "now"}
	if _, err := queue().FromEnvironment(lookup); err == nil || err.Error() != "GQ_BEGIN (--begin) is not supported: submit it then" {
		t.Errorf("a variable of an option that is not supported: %v", err)
	}
}

func TestValues(t *testing.T) {
	strong := Values{"a": {"1"}, "b": {"x,y", " z ,"}}
	weak := Values{"a": {"2", "3"}, "c": {"4"}}
	merged := strong.Over(weak)
	if want := (Values{"a": {"1"}, "b": {"x,y", " z ,"}, "c": {"4"}}); !cmp.Equal(merged, want) {
		t.Errorf("Over: %v", merged)
	}
	if got := merged.List("b"); !slices.Equal(got, []string{"x", "y", "z"}) {
		t.Errorf("List: %q", got)
	}
	if weak.Text("a") != "3" || weak.Text("none") != "" || weak.Given("b") {
		t.Error("Text takes the last value, Given only what was given")
	}
}

// FuzzNormalise: whatever is read, reading its canonical form gives the same.
func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{"-ahNO\nx", "--nodel\nn1\nop", "--nice=5\n--", "-K0\n-b\nx", "--form=a=b\n-", "-\xff\n--\x00"} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, stop bool) {
		command := queue()
		command.StopAtOperand = stop
		settings, operands, err := command.Normalise(strings.Split(text, "\n"))
		if err != nil {
			var usage *UsageError
			var later *LaterError
			if !errors.As(err, &usage) && !errors.As(err, &later) {
				t.Fatalf("error of type %T: %v", err, err)
			}
			return
		}
		var again []string
		for _, setting := range settings {
			value := setting.Canonical()
			if setting.Option.Flag() {
				value = "--" + setting.Option.Long
			}
			again = append(again, value)
		}
		second, rest, err := command.Normalise(append(append(again, "--"), operands...))
		if err != nil || !slices.Equal(rest, operands) || canonical(second) != canonical(settings) {
			t.Fatalf("%q read again: %q %q %v, first %q %q", text, canonical(second), rest, err, canonical(settings), operands)
		}
	})
}
