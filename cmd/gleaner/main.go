// Command gleaner is every user command of Gleaner: "gleaner submit", or
// "gsubmit" when it is called by that name, or "sbatch" by Slurm's.
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
	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// version is set by the build: -ldflags "-X main.version=…".
var version = "unversioned"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	followZone(os.Getenv("TZ"))
	streams := option.Streams{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}
	status := dispatch(ctx, os.Args, streams)
	stop()
	os.Exit(status)
}

// dispatch runs the command that the program's own name or its first argument
// names and returns the exit status.
func dispatch(ctx context.Context, argv []string, streams option.Streams) int {
	program := filepath.Base(argv[0])
	args := argv[1:]
	command := byProgram(program)
	if command == nil {
		command = bySlurmName(program)
	}
	if command == nil && len(args) > 0 {
		if command = byName(args[0]); command != nil {
			args = args[1:]
		}
	}
	var err error
	if command != nil {
		program = command.Program()
		app := option.App("gleaner", version, command, streams)
		err = option.Run(ctx, app, command, args)
	} else {
		program = "gleaner"
		var known bool
		if known, err = answer(args, streams); !known {
			err = unknownCommand(args[0])
		}
	}
	text, status := option.Report(program, err)
	_, _ = io.WriteString(streams.Stderr, text)
	return status
}

// unknownCommand says which command was meant, or which there are.
func unknownCommand(word string) error {
	var names []string
	for _, command := range commands() {
		if !command.Hidden {
			names = append(names, command.Name)
		}
	}
	if meant := similar.Nearest(word, names); meant != "" {
		return fmt.Errorf("there is no command %q; did you mean %s?", word, meant)
	}
	return fmt.Errorf("there is no command %q; the commands are: %s", word, strings.Join(names, " "))
}

// byProgram finds the command that is a program of its own by this name.
func byProgram(program string) *option.Command {
	for command := range each {
		if command.OwnProgram() && command.Program() == program {
			return command
		}
	}
	return nil
}

// bySlurmName finds the command whose place in Slurm a name is: sbatch, squeue.
func bySlurmName(program string) *option.Command {
	for command := range each {
		if command.Alias != "" && command.Alias == program {
			command.CalledAs = program
			return command
		}
	}
	return nil
}

func byName(name string) *option.Command {
	for command := range each {
		if command.Name == name {
			return command
		}
	}
	return nil
}
