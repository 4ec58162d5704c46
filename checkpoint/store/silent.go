package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// maxWaiting is how many calls may hang in a directory that does not answer,
// each with a goroutine and its buffers, before others are refused at once.
const maxWaiting = 16

// within runs a call that could hang in the file system for ever. It answers
// when the call does, or a moment after the context is done: the call then goes
// on by itself, notices that and cleans up once the file system answers again.
func within[T any](ctx context.Context, d *Directory, what string, call func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("%s %s: %w", what, d.path, context.Cause(ctx))
	}
	if d.waiting.Load() >= maxWaiting {
		return none, fmt.Errorf("%s %s: %w: %d calls wait for it already", what, d.path, ErrSilent, maxWaiting)
	}
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	d.waiting.Add(1)
	go func() {
		defer d.waiting.Add(-1)
		value, err := call(ctx)
		done <- outcome{value, err}
	}()
	var late <-chan time.Time
	over := ctx.Done()
	for {
		select {
		case o := <-done:
			if o.err != nil {
				return o.value, fmt.Errorf("%s %s: %w", what, d.path, full(o.err))
			}
			return o.value, nil
		case <-over:
			over = nil
			timer := time.NewTimer(d.patience)
			defer timer.Stop()
			late = timer.C
		case <-late:
			return none, fmt.Errorf("%s %s: %w: %w", what, d.path, ErrSilent, context.Cause(ctx))
		}
	}
}

// full makes an ErrFull of what a file system answers when it has no room left.
func full(err error) error {
	if !errors.Is(err, ErrFull) && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
