package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// patience is how long a copy goes on without a single byte that comes; and between two tries
// there are pauses that grow. Variables for tests.
var (
	patience   = 10 * time.Minute
	firstPause = time.Second
)

const mostPause = 30 * time.Second

func newPause() *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstPause, mostPause
	return pause
}

// errWrongSum is returned for a file that differs from what its source or its user says.
var errWrongSum = errors.New("its SHA-256 is wrong")

// fetch brings what a URL names.
func (c *copier) fetch(ctx context.Context, one spec.Staging) error {
	u, err := url.Parse(one.Source)
	if err != nil {
		return err
	}
	if u.Scheme == "s3" {
		return c.fetchObjects(ctx, u, one.Target)
	}
	root, name, err := openTarget(one.Target, path.Base(u.Path))
	if err != nil {
		return err
	}
	defer root.Close()
	if hasSum(root, name, wantedSum(u)) {
		return nil
	}
	from := newWebFile(u)
	f, err := continueInto(root, name, from)
	if err != nil {
		return err
	}
	from.begun = func() { f.note(from.origin()) }
	return f.finish(c.download(ctx, from, f.part, wantedSum(u)))
}

// hasSum reports whether a file is there with the sum that the user says: of a run that was
// requeued, or of another job, if the target is shared.
func hasSum(root *os.Root, name, wanted string) bool {
	if wanted == "" {
		return false
	}
	same := false
	_ = withFile(func() (*os.File, error) {
		return root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}, name, func(file *os.File, _ string, _ int64) error {
		sum := sha256.New()
		_, err := io.Copy(sum, file)
		same = err == nil && checkSum(sum, wanted) == nil
		return nil
	})
	return same
}

// wantedSum is what the user says of a file: #sha256=HEX behind the URL; "" = nothing.
func wantedSum(u *url.URL) string {
	return strings.ToLower(strings.TrimPrefix(u.Fragment, spec.StagingSum))
}

// remote is a file elsewhere that can be read from a place on.
type remote interface {
	// read writes to the file from its present place on, which is at, and to the sum. It
	// answers whether the file is whole. An error that is not final is tried again. What it
	// writes before an error counts.
	read(ctx context.Context, into io.Writer, at int64) (whole bool, err error)
	name() string
	size() int64 // -1 = nobody knows
	sum() string // in hex, as the source says; "" = it does not
}

// errAgain is returned by a remote that has changed: it is read from its beginning.
var errAgain = errors.New("it has changed meanwhile")

// finalError is one that would come again.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

func final(format string, values ...any) error {
	return &finalError{fmt.Errorf(format, values...)}
}

// waitError says how long to wait before the next try.
type waitError struct {
	error
	pause time.Duration
}

// download reads all of a file behind what is there of it, over as many connections as that
// takes.
func (c *copier) download(ctx context.Context, from remote, file *os.File, wanted string) error {
	sum := sha256.New()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	at, err := io.Copy(sum, io.LimitReader(file, info.Size()))
	if err != nil {
		return err
	}
	pause := newPause()
	for last := time.Now(); ; {
		w := &arriving{file: file, sum: sum, tell: func(n int64) { c.progress(from.name(), at+n, from.size()) }}
		var whole bool
		whole, err = from.read(ctx, w, at)
		at += w.done
		if w.done > 0 {
			last = time.Now()
			pause.Reset()
		}
		var never *finalError
		switch {
		case w.failed != nil:
			return w.failed // this machine's disk
		case err == nil && whole:
			return checkSum(sum, wanted, from.sum())
		case errors.As(err, &never):
			return never.error
		case ctx.Err() != nil:
			return errors.New("it was interrupted")
		case time.Since(last) > patience:
			return fmt.Errorf("nothing has come for %v: %w", patience, err)
		case errors.Is(err, errAgain):
			if err := startOver(file); err != nil {
				return err
			}
			at = 0
			sum.Reset()
		}
		if err := rest(ctx, pause.NextBackOff(), err); err != nil {
			return err
		}
	}
}

func startOver(file *os.File) error {
	_, err := file.Seek(0, io.SeekStart)
	return errors.Join(err, file.Truncate(0))
}

// rest waits before the next try.
func rest(ctx context.Context, pause time.Duration, why error) error {
	var wait *waitError
	if errors.As(why, &wait) {
		pause = max(pause, wait.pause)
	}
	select {
	case <-ctx.Done():
		return errors.New("it was interrupted")
	case <-time.After(pause):
		return nil
	}
}

func checkSum(sum hash.Hash, wanted ...string) error {
	got := hex.EncodeToString(sum.Sum(nil))
	for _, want := range wanted {
		if want != "" && want != got {
			return fmt.Errorf("%w: it is %s and should be %s", errWrongSum, got, want)
		}
	}
	return nil
}

// arriving writes what comes to a file and a sum.
type arriving struct {
	file   *os.File
	sum    hash.Hash
	done   int64
	failed error // of the file
	tell   func(done int64)
}

// Write implements io.Writer.
func (w *arriving) Write(data []byte) (int, error) {
	n, err := w.file.Write(data)
	w.sum.Write(data[:n])
	w.done += int64(n)
	w.failed = err
	w.tell(w.done)
	return n, err
}

// sendAway copies a file, or a directory, to a URL.
func (c *copier) sendAway(ctx context.Context, one spec.Staging) error {
	u, err := url.Parse(one.Target)
	if err != nil {
		return err
	}
	base := filepath.Base(filepath.Clean(one.Source))
	if u.Scheme == "s3" {
		return c.sendObjects(ctx, one.Source, base, u)
	}
	return eachFile(one.Source, func(file *os.File, name string, size int64) error {
		to := *u
		if name == "" && strings.HasSuffix(u.Path, "/") {
			name = base
		}
		if name != "" {
			to = *u.JoinPath(strings.Split(filepath.ToSlash(name), "/")...)
		}
		return c.upload(ctx, &to, file, size)
	})
}
