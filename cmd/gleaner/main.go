// Command gleaner is every user command of Gleaner: "gleaner submit", or
// "gsubmit" when it is called by that name.
//
// It promises the options, words and exit statuses of the Slurm command whose
// place each one takes. It needs a controller (--controller,
// $GLEANER_CONTROLLER, or the local socket) for all but help texts.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// version is set by the build: -ldflags "-X main.version=…".
var version = "0.1.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := option.Streams{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}
	status := dispatch(ctx, os.Args, streams)
	stop()
	os.Exit(status)
}

// dispatch runs the command that the program's own name or its first argument
// names and returns the exit status.
func dispatch(ctx context.Context, argv []string, streams option.Streams) int {
	program := filepath.Base(argv[0])
	app := option.App("gleaner", version, "a batch scheduler for GPUs that have owners", commands(), streams)
	args := argv[1:]
	command := byProgram(program)
	if command == nil && len(args) > 0 {
		if command = byName(args[0]); command != nil {
			args = args[1:]
		}
	}
	var err error
	switch {
	case command != nil:
		program = command.Program()
		err = option.Run(ctx, app, command, args)
	case len(args) > 0 && !knownToApp(args[0]):
		program = "gleaner"
		err = unknownCommand(args[0])
	default:
		err = app.RunContext(ctx, append([]string{"gleaner"}, args...))
	}
	text, status := option.Report(program, err)
	_, _ = io.WriteString(streams.Stderr, text)
	return status
}

// knownToApp says whether urfave/cli answers a first argument by itself.
func knownToApp(word string) bool {
	switch word {
	case "help", "h", "--help", "-h", "--version", "-v":
		return true
	}
	return false
}

func unknownCommand(word string) error {
	var names []string
	for _, command := range commands() {
		if !command.Hidden {
			names = append(names, command.Name)
		}
	}
	return fmt.Errorf("there is no command %q; the commands are: %s", word, strings.Join(names, " "))
}

// byProgram finds the command that is a program of its own by this name.
func byProgram(program string) *option.Command {
	for _, command := range commands() {
		if command.Alias != "" && command.Program() == program {
			return command
		}
	}
	return nil
}

func byName(name string) *option.Command {
	for _, command := range commands() {
		if command.Name == name {
			return command
		}
	}
	return nil
}
