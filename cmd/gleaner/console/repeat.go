// Package console is how a command deals with its user: it reads files and
// answers until an interrupt, repeats every so many seconds, tells a reader
// that has gone from other errors, quotes words for a shell, asks for
// confirmation, and says what time it is and who asks.
//
// Clock and UID are variables, so that tests can set them.
package console

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Repeat calls once, or every so many seconds until the user interrupts. Then
// an error is shown and the next round tried: who watches a queue wants it
// back when the controller is.
func Repeat(inv *option.Invocation, everyS int, once func(context.Context, time.Time) error) error {
	for {
		err := once(inv.Context, Clock())
		if everyS == 0 || errors.Is(err, ErrOutput) {
			return err
		}
		if inv.Context.Err() != nil {
			return nil // how a watch ends
		}
		if text, _ := option.Report(inv.Command.Program(), err); text != "" {
			fmt.Fprint(inv.Stderr, text)
		}
		select {
		case <-inv.Context.Done():
			return nil
		case <-time.After(time.Duration(everyS) * time.Second):
		}
		if _, err := fmt.Fprintln(inv.Stdout); err != nil {
			return err
		}
	}
}

// IterateSeconds reads --iterate.
func IterateSeconds(inv *option.Invocation) (int, error) {
	if !inv.Given("iterate") {
		return 0, nil
	}
	seconds, err := strconv.Atoi(inv.Text("iterate"))
	if err != nil || seconds <= 0 || seconds > 1<<20 {
		return 0, inv.Fail("--iterate=%s: type a number of seconds, at least 1", inv.Text("iterate"))
	}
	return seconds, nil
}

// DateLine is the line above the header of --long and --iterate.
const DateLine = "Mon Jan _2 15:04:05 2006"

// Clock is what time it is.
var Clock = time.Now
