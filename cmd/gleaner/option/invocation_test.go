package option

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRunHandsOverWhatWasGiven(t *testing.T) {
	command := queue()
	var got Values
	var operands []string
	command.Run = func(inv *Invocation) error {
		got, operands = inv.Values, inv.Operands
		fmt.Fprint(inv.Stdout, inv.Getenv("A"))
		return nil
	}
	var out bytes.Buffer
	app := App("gleaner", "1.2", command, Streams{Stdout: &out, Stderr: &out, Environ: []string{"A=1", "A=2"}})
	err := Run(context.Background(), app, command, []string{"-a", "-n", "x,y", "-n", "", "op", "--nice=", "-K1", "--", "-q"})
	if err != nil {
		t.Fatal(err)
	}
	want := Values{"all": {""}, "name": {"x,y", ""}, "nice": {""}, "kill": {"1"}}
	if diff := cmp.Diff(want, got); diff != "" || strings.Join(operands, " ") != "op -q" || out.String() != "2" {
		t.Errorf("values %s\noperands %q, output %q", diff, operands, out.String())
	}
}

func TestRunAnswersHelpItself(t *testing.T) {
	command := queue()
	command.Summary = "show the queue"
	command.Examples = []Example{{Text: "yours", Command: "gqueue --me"}}
	command.ExitStatus = []ExitStatus{{"0", "fine"}}
	command.Run = func(*Invocation) error { t.Error("Run was called"); return nil }
	for arg, wanted := range map[string][]string{
		"--help":    {"Usage: gqueue [options]", "-p, --partition=<p>", "    --nice[=<n>]", "  --begin", "# yours\n  gqueue --me", "0   ", "also --jobname"},
		"--usage":   {"Usage: gqueue [options]"},
		"--version": {"gleaner 1.2"},
	} {
		var out bytes.Buffer
		app := App("gleaner", "1.2", command, Streams{Stdout: &out, Stderr: &out})
		if err := Run(context.Background(), app, command, []string{arg}); err != nil {
			t.Fatal(err)
		}
		for _, text := range wanted {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s lacks %q:\n%s", arg, text, out.String())
			}
		}
	}
}

func TestReport(t *testing.T) {
	cause := errors.New("cause")
	usage := queue()
	usage.UsageStatus = 255
	_, _, unknown := usage.Normalise([]string{"--bogus"})
	for _, test := range []struct {
		err    error
		text   string
		status int
	}{
		{nil, "", 0},
		{Exit(0), "", 0},
		{Exit(7), "", 7},
		{cause, "gqueue: error: cause\n", 1},
		{Fail(255, "a\nb"), "gqueue: error: a\ngqueue: error: b\n", 255},
		{fmt.Errorf("outer: %w", Fail(3, "inner")), "gqueue: error: outer: inner\n", 3},
		{unknown, "gqueue: unrecognized option '--bogus'\nTry \"gqueue --help\" for more information\n", 255},
		{fmt.Errorf("ask: %w", context.Canceled), "gqueue: error: interrupted before there was an answer: what was asked for may have been done all the same\n", 130},
		{&LaterError{Name: "--x", Remedy: "y"}, "gqueue: error: --x is not supported: y\n", 1},
	} {
		text, status := Report("gqueue", test.err)
		if text != test.text || status != test.status {
			t.Errorf("%v: got %q, %d; want %q, %d", test.err, text, status, test.text, test.status)
		}
	}
	if !errors.Is(Fail(1, "x: %w", cause), cause) {
		t.Error("the cause of a failure is lost")
	}
}
