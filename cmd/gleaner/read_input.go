package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// errDirectory is returned for a directory where a file is wanted.
var errDirectory = errors.New("it is a directory")

// readFile reads up to the limit and one byte more of what a path names. It
// does not wait for a FIFO, terminal or pipe that the user has given up.
func readFile(ctx context.Context, path string, limit int) ([]byte, error) {
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

// readStream is readFile for what is open already.
func readStream(ctx context.Context, source io.Reader, limit int) ([]byte, error) {
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
		return nil, option.Exit(interrupted)
	case got := <-done:
		return got.text, got.err
	}
}
