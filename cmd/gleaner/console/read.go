package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// ReadFile reads up to the limit and one byte more of what a path names. It
// does not wait for a FIFO, terminal or pipe that the user has given up.
func ReadFile(ctx context.Context, path string, limit int) ([]byte, error) {
	return interruptible(ctx, func() ([]byte, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.IsDir() {
			return nil, &os.PathError{Op: "open", Path: path, Err: errDirectory}
		}
		return readAll(file, limit)
	})
}

// ReadBeside reads files that another one names: relative paths are those from where that
// one is. A file beyond the limit is refused.
func ReadBeside(ctx context.Context, path string, limit int) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) && path != "-" {
			name = filepath.Join(filepath.Dir(path), name)
		}
		text, err := ReadFile(ctx, name, limit)
		if err == nil && len(text) > limit {
			err = fmt.Errorf("%s is larger than %d bytes", name, limit)
		}
		return text, err
	}
}

// ReadStream is ReadFile for what is open already.
func ReadStream(ctx context.Context, source io.Reader, limit int) ([]byte, error) {
	return interruptible(ctx, func() ([]byte, error) { return readAll(source, limit) })
}

func readAll(source io.Reader, limit int) ([]byte, error) {
	return io.ReadAll(io.LimitReader(source, int64(limit)+1))
}

// interruptible returns what read does, or when ctx ends the error that ends
// the command as interrupted; read is then left behind, since neither opening
// a FIFO nor reading from one can be called off.
func interruptible(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type outcome struct {
		text []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		text, err := read()
		done <- outcome{text, err}
	}()
	select {
	case <-ctx.Done():
		return nil, option.Exit(Interrupted)
	case got := <-done:
		return got.text, got.err
	}
}

// errDirectory is returned for a directory where a file is wanted.
var errDirectory = errors.New("it is a directory")

// readLine waits for an answer. An interrupt is none: "".
func readLine(inv *option.Invocation, input io.Reader) (string, error) {
	type line struct {
		text string
		err  error
	}
	lines := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(io.LimitReader(input, 1024)).ReadString('\n')
		lines <- line{text, err}
	}()
	select {
	case got := <-lines:
		if got.err != nil && !errors.Is(got.err, io.EOF) {
			return "", got.err
		}
		return got.text, nil
	case <-inv.Context.Done():
		fmt.Fprintln(inv.Stderr)
		return "", nil
	}
}

// Interrupted is the exit status of a command that the user interrupted.
const Interrupted = 128 + int(syscall.SIGINT)
