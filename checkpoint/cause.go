package checkpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Failure is returned by Dump and Restore when CRIU could not do it.
type Failure struct {
	What  string   // "dump" or "restore"
	Cause string   // what CRIU says itself, in its words; "" = nothing
	Lines []string // all that CRIU calls errors, at most maxCauses, oldest first
	Log   string   // the path of CRIU's whole log
	Err   error
}

func (f *Failure) Error() string {
	if f.Cause == "" {
		return fmt.Sprintf("%s: %v", f.What, f.Err)
	}
	return fmt.Sprintf("%s: %v: %s", f.What, f.Err, f.Cause)
}

// Unwrap answers what the conversation with CRIU ended with.
func (f *Failure) Unwrap() error { return f.Err }

// failure reads CRIU's log for the cause. A context's end is cause enough. It wraps
// ErrBetween if the cause is one that passes.
func failure(what, log string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s was given up: %w", what, err)
	}
	f := &Failure{What: what, Log: log, Err: err}
	if file, openErr := os.Open(log); openErr == nil {
		defer file.Close()
		f.Lines = causes(bufio.NewScanner(file))
	}
	f.Cause = strings.Join(f.Lines[:min(len(f.Lines), 2)], "; ")
	if slices.ContainsFunc(f.Lines, passing.MatchString) {
		return fmt.Errorf("%w: %w", ErrBetween, f)
	}
	return f
}

const maxCauses = 16

// harmless are lines that CRIU calls errors on machines where it works.
var harmless = []*regexp.Regexp{
	regexp.MustCompile(`rlimit: .*RLIMIT_NOFILE`),
	regexp.MustCompile(`Can't (keep|write|unlink|open) kdat`),
	regexp.MustCompile(`iptables has (nft|legacy)`),
	regexp.MustCompile(`tun: Unable to create tun`), // looked for in the container's control group
}

// consequences are what CRIU says after the cause, whatever the cause.
var consequences = []*regexp.Regexp{
	regexp.MustCompile(`(Dumping|Restoring|Pre-dumping) (FAILED|failed)`),
	regexp.MustCompile(`Dump files \(pid: \d+\) failed`),
	regexp.MustCompile(`(exited, status|killed by signal|Task \d+ exited|exited unexpectedly)`),
	regexp.MustCompile(`Couldn't collect|Can't (wait|detach)`),
}

// passing are causes that are over when the processes have run for a moment: a
// connection that the other process has not accepted yet; a process that was woken
// while CRIU worked in it.
var passing = regexp.MustCompile(`unix: .* in-flight socket|task interruption, aborting`)

// logLine is "(00.012345)   12: Error (criu/files.c:12): text".
var logLine = regexp.MustCompile(`^\([0-9.]+\)\s+(?:\d+: )?Error \((?:[^)]*)\): (.*)$`)

// causes answers the errors in a log: first those that are the cause of something, in
// the order in which they were written, then their consequences. What a machine that
// works also says is left out.
func causes(lines *bufio.Scanner) []string {
	lines.Buffer(nil, 1<<20)
	var first, then []string
	for lines.Scan() {
		found := logLine.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		text := strings.TrimSpace(found[1])
		matches := func(p *regexp.Regexp) bool { return p.MatchString(text) }
		switch {
		case slices.ContainsFunc(harmless, matches), slices.Contains(first, text), slices.Contains(then, text):
		case slices.ContainsFunc(consequences, matches):
			then = append(then, text)
		case len(first) < maxCauses:
			first = append(first, text)
		}
	}
	all := append(first, then...)
	return all[:min(len(all), maxCauses)]
}
