// Command fuzz runs the fuzz targets of the tree, one after another, each for
// the same time, and prints a line for each: package, name, executions, inputs
// that reached something new, result. At the first find it shows what go test
// said, and ends with status 1; the input that did it then lies in the
// package's testdata/fuzz/<target>, where every later go test tries it again.
//
// Targets are found in the packages' test files, so that none has to be entered
// here.
// Memory is bounded: an input that makes a program take it all is a find, not
// the end of the machine. Nothing is bounded by a machine's speed, but for go
// test's own rule that one input must not take ten seconds.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	each := flag.Duration("time", time.Minute, "how long each target is run")
	names := flag.String("run", "", "regular expression of the targets to run, as package.Target; \"\" = all")
	tags := flag.String("tags", "seccomp", "build tags")
	parallel := flag.Int("parallel", 1, "inputs tried at once")
	memory := flag.Uint64("memory", 8<<30, "bytes of address space a process may take")
	flag.Parse()
	if err := run(*each, *names, *tags, *parallel, *memory); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(each time.Duration, names, tags string, parallel int, memory uint64) error {
	wanted, err := regexp.Compile(names)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: memory, Max: memory}); err != nil {
		return fmt.Errorf("bound the memory to %d bytes: %w", memory, err)
	}
	targets, err := list(tags, wanted)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return fmt.Errorf("no target matches %q: leave it out to run all", names)
	}
	for _, t := range targets {
		if err := t.run(each, tags, parallel); err != nil {
			return err
		}
	}
	fmt.Printf("%d targets, none found anything\n", len(targets))
	return nil
}
