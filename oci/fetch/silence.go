package fetch

import (
	"context"
	"errors"
	"io"
	"time"
)

// Patience is how long a place that has images may be silent.
var Patience = time.Minute

// ErrSilent is returned for a place from which nothing comes any longer.
var ErrSilent = errors.New("nothing has come from there for a minute: try again later, or from a copy nearer by")

// watch closes what is read when nothing has come for Patience.
type watch struct {
	timer *time.Timer
	late  chan struct{}
}

func newWatch(ctx context.Context, body io.Closer) *watch {
	w := &watch{late: make(chan struct{})}
	w.timer = time.AfterFunc(Patience, func() { close(w.late); body.Close() })
	context.AfterFunc(ctx, func() { body.Close() })
	return w
}

// untilSilent reads while something comes.
type untilSilent struct {
	from io.Reader
	left *watch
}

// Read implements io.Reader.
func (u *untilSilent) Read(into []byte) (int, error) {
	n, err := u.from.Read(into)
	select {
	case <-u.left.late:
		return n, ErrSilent
	default:
	}
	if err != nil {
		u.left.timer.Stop()
	} else {
		u.left.timer.Reset(Patience)
	}
	return n, err
}
