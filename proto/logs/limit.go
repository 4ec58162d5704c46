package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Of lines alike, burst are written in each window; the rest is counted. What
// goes wrong once a minute is written each time, and what goes wrong in a loop
// fills at most some megabytes a day.
const (
	burst  = 20
	window = time.Minute
)

// maxKinds bounds how many kinds of lines are told apart. Messages are words
// of ours, so there are no others; if there were, counting would start over.
const maxKinds = 1024

// LeftOut is the key that says how many lines like this one were not written.
const LeftOut = "left_out"

// kind is what lines have in common that are alike: everything but the values.
type kind struct {
	level   slog.Level
	message string
}

// count is how often a kind came in its present window.
type count struct {
	began   time.Time
	written int
	leftOut int
	summary *time.Timer // says so when nothing else does
}

// limit counts for a log and all that are derived from it.
type limit struct {
	often map[string]bool
	root  slog.Handler // that a count is written to: it is no single job's

	mu    sync.Mutex
	kinds map[kind]*count
}

func newLimit(root slog.Handler, often []string) *limit {
	l := &limit{root: root, often: make(map[string]bool, len(often)), kinds: make(map[kind]*count)}
	for _, message := range often {
		l.often[message] = true
	}
	return l
}

// take reports whether a line is to be written, and how many like it were left
// out before it.
func (l *limit) take(k kind, now time.Time, summarize func(leftOut int)) (write bool, leftOut int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.kinds[k]
	if c == nil {
		if len(l.kinds) >= maxKinds {
			clear(l.kinds)
		}
		c = &count{began: now}
		l.kinds[k] = c
	}
	if now.Sub(c.began) >= window || now.Before(c.began) {
		leftOut = c.leftOut
		if c.summary != nil {
			c.summary.Stop()
		}
		*c = count{began: now}
	}
	if c.written < burst {
		c.written++
		return true, leftOut
	}
	c.leftOut++
	if c.summary == nil {
		c.summary = time.AfterFunc(window, func() { summarize(l.settle(c)) })
	}
	return false, 0
}

// settle takes what was counted, when its window is over.
func (l *limit) settle(c *count) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := c.leftOut
	c.leftOut, c.summary = 0, nil
	return n
}

// handler writes what the limit lets through.
type handler struct {
	inner slog.Handler
	limit *limit
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn && !h.limit.often[r.Message] {
		return h.inner.Handle(ctx, r)
	}
	k := kind{r.Level, r.Message}
	write, leftOut := h.limit.take(k, time.Now(), func(n int) {
		if n > 0 {
			summary := slog.NewRecord(time.Now(), k.level, k.message, 0)
			summary.AddAttrs(slog.Int(LeftOut, n))
			_ = h.limit.root.Handle(context.Background(), summary) // a log that cannot be written has nowhere to say so
		}
	})
	if !write {
		return nil
	}
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int(LeftOut, leftOut))
	}
	return h.inner.Handle(ctx, r)
}

func (h *handler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return &handler{inner: h.inner.WithAttrs(attributes), limit: h.limit}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{inner: h.inner.WithGroup(name), limit: h.limit}
}
