package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// output is what is told while the test runs, to the terminal and to a file
// among the logs.
type output struct {
	mu    sync.Mutex
	begin time.Time
	to    io.Writer
	file  *os.File
}

func newOutput(directory string) (*output, error) {
	folder := filepath.Join(directory, logFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(folder, "chaos.log"))
	if err != nil {
		return nil, err
	}
	return &output{begin: time.Now(), to: io.MultiWriter(os.Stdout, file), file: file}, nil
}

// say prints a line with the time since the start.
func (o *output) say(format string, words ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.to, "%6.1f  %s\n", time.Since(o.begin).Seconds(), fmt.Sprintf(format, words...))
}

// note writes a line to the file alone.
func (o *output) note(format string, words ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.file, "%6.1f  %s\n", time.Since(o.begin).Seconds(), fmt.Sprintf(format, words...))
}

// plain prints lines as they are.
func (o *output) plain(format string, words ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.to, format+"\n", words...)
}
