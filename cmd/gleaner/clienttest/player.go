// Package clienttest is what the tests of several commands share: a Player that
// runs command lines as main does, dialogues with the golden screens in each
// command's testdata, stand-ins for a controller, and one cluster in which
// everything that commands show occurs once.
//
// It imports no command: a Player is made of the command that it plays.
package clienttest

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/console"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// Player runs command lines as main does.
type Player struct {
	Dispatch func(ctx context.Context, argv []string, streams option.Streams) int
}

// Of plays one command, by the name of its program or after "gleaner".
func Of(command *option.Command) Player {
	return Player{func(ctx context.Context, argv []string, streams option.Streams) int {
		args := argv[1:]
		switch {
		case argv[0] == "gleaner" && len(args) > 0 && args[0] == command.Name:
			args = args[1:]
		case filepath.Base(argv[0]) != command.Program():
			panic(argv[0] + " is another command than " + command.Program() + ": play it in the tests of main.go")
		}
		err := option.Run(ctx, option.App("gleaner", "1.2.3", command, streams), command, args)
		text, status := option.Report(command.Program(), err)
		_, _ = io.WriteString(streams.Stderr, text)
		return status
	}}
}

// Outcome is how a command ended.
type Outcome struct {
	Status         int
	Stdout, Stderr string
}

// Command runs a command line. Environment entries are NAME=VALUE.
func (p Player) Command(t *testing.T, target, stdin string, environ []string, argv ...string) Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	return p.CommandIn(ctx, t, target, stdin, environ, argv...)
}

// CommandIn is command until ctx ends.
func (p Player) CommandIn(ctx context.Context, t *testing.T, target, stdin string, environ []string, argv ...string) Outcome {
	t.Helper()
	t.Setenv("GLEANER_CONTROLLER", target) // proto/dial reads the process's own
	var stdout, stderr bytes.Buffer
	status := p.Dispatch(ctx, argv, option.Streams{
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Environ: environ,
	})
	return Outcome{status, stdout.String(), stderr.String()}
}

// Typed runs a command line as the shell would and returns what it printed.
func (p Player) Typed(t *testing.T, ctx context.Context, environ []string, line string) (stdout, stderr string, exit int) {
	t.Helper()
	words, err := option.SplitWords(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	var out, errors bytes.Buffer
	exit = p.Dispatch(ctx, words, option.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errors, Environ: environ})
	return out.String(), errors.String(), exit
}

// AtTerminal runs a command line with a terminal as its standard input, at which
// somebody types an answer.
func (p Player) AtTerminal(t *testing.T, line, answer string) Outcome {
	t.Helper()
	master, path, err := console.NewPty()
	if err != nil {
		t.Skip("needs pseudo terminals (/dev/ptmx):", err)
	}
	defer master.Close()
	terminal, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if _, err := master.Write([]byte(answer)); err != nil {
		t.Fatal(err)
	}
	words, err := option.SplitWords(line)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	status := p.Dispatch(ctx, words, option.Streams{Stdin: terminal, Stdout: &stdout, Stderr: &stderr})
	return Outcome{status, stdout.String(), stderr.String()}
}

// Patient is TestMain: what is slow is asked once; tests of what hangs are less
// patient.
func Patient(m *testing.M) {
	client.AnswerTime, client.PingTime = prototest.Patience, prototest.Patience
	os.Exit(m.Run())
}
