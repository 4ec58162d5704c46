package run

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// maxPartialLine bounds what is held back of a line that has not ended yet.
const maxPartialLine = 64 << 10

// streamMode is where a standard stream of the tasks comes from or goes to.
type streamMode struct {
	kind    streamKind
	task    uint32 // of streamTask
	pattern string // of streamFile
}

type streamKind int

const (
	streamAll  streamKind = iota // grun's own, for all tasks
	streamTask                   // grun's own, for one task
	streamNone
	streamFile
)

// parseStream reads the argument of --input, --output and --error. A number
// that does not name a task of the step is a file name, as in srun(1).
func parseStream(text string, tasks int) streamMode {
	switch text {
	case "", "all":
		return streamMode{kind: streamAll}
	case "none":
		return streamMode{kind: streamNone}
	}
	if number, err := strconv.ParseUint(text, 10, 31); err == nil && number < uint64(tasks) {
		return streamMode{kind: streamTask, task: uint32(number)}
	}
	return streamMode{kind: streamFile, pattern: text}
}

// outputs takes what the tasks write to where it belongs.
type outputs struct {
	modes      map[step.Stream]streamMode
	writers    map[step.Stream]io.Writer // grun's own
	labelWidth int                       // 0 = no labels
	unbuffered bool

	files   map[string]*os.File
	byRank  map[outputKey]*os.File
	partial map[outputKey][]byte // of lines that have not ended
}

type outputKey struct {
	stream step.Stream
	rank   uint32
}

// open opens the files that the tasks write to; name makes a path of a
// pattern.
func (o *outputs) open(ranks int, appendTo bool, name func(pattern string, rank uint32) (string, error)) error {
	o.files, o.byRank, o.partial = map[string]*os.File{}, map[outputKey]*os.File{}, map[outputKey][]byte{}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if appendTo {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	for stream, mode := range o.modes {
		if mode.kind != streamFile {
			continue
		}
		for rank := range uint32(ranks) {
			path, err := name(mode.pattern, rank)
			if err != nil {
				return err
			}
			file, known := o.files[path]
			if !known {
				if file, err = os.OpenFile(path, flags, 0o666); err != nil {
					return option.Fail(1, "Unable to open file %s for output: %w", path, console.Reason(err))
				}
				o.files[path] = file
			}
			o.byRank[outputKey{stream, rank}] = file
		}
	}
	return nil
}

// write passes on what one task wrote.
func (o *outputs) write(rank uint32, stream step.Stream, data []byte) error {
	key := outputKey{stream, rank}
	writer := o.writer(key)
	if writer == nil || len(data) == 0 {
		return nil
	}
	if o.unbuffered && o.labelWidth == 0 {
		_, err := writer.Write(data)
		return err
	}
	held := append(o.partial[key], data...)
	var ready []byte
	for {
		end := bytes.IndexByte(held, '\n') + 1
		if end == 0 && len(held) > maxPartialLine {
			end = len(held)
		}
		if end == 0 {
			break
		}
		ready = append(o.appendLabel(ready, rank), held[:end]...)
		if held[end-1] != '\n' && o.labelWidth > 0 {
			ready = append(ready, '\n')
		}
		held = held[end:]
		if len(ready) > 0 {
			if _, err := writer.Write(ready); err != nil {
				return err
			}
			ready = ready[:0]
		}
	}
	o.partial[key] = bytes.Clone(held)
	return nil
}

// flush passes on the last line of a task that has ended, and ends it where
// the label of another would follow.
func (o *outputs) flush(rank uint32) error {
	var failed error
	for _, stream := range []step.Stream{step.Stdout, step.Stderr} {
		key := outputKey{stream, rank}
		held := o.partial[key]
		delete(o.partial, key)
		writer := o.writer(key)
		if len(held) == 0 || writer == nil {
			continue
		}
		line := append(o.appendLabel(nil, rank), held...)
		if o.labelWidth > 0 {
			line = append(line, '\n')
		}
		if _, err := writer.Write(line); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// close flushes what is left and closes the files.
func (o *outputs) close() error {
	var failed error
	for key := range o.partial {
		if err := o.flush(key.rank); err != nil && failed == nil {
			failed = err
		}
	}
	for path, file := range o.files {
		if err := file.Close(); err != nil && failed == nil {
			failed = fmt.Errorf("write %s: %w", path, console.Reason(err))
		}
	}
	return failed
}

func (o *outputs) writer(key outputKey) io.Writer {
	switch mode := o.modes[key.stream]; mode.kind {
	case streamAll:
		return o.writers[key.stream]
	case streamTask:
		if mode.task == key.rank {
			return o.writers[key.stream]
		}
	case streamFile:
		if file := o.byRank[key]; file != nil {
			return file
		}
	}
	return nil
}

func (o *outputs) appendLabel(line []byte, rank uint32) []byte {
	if o.labelWidth == 0 {
		return line
	}
	return fmt.Appendf(line, "%*d: ", o.labelWidth, rank)
}

// labelWidth is the width of the highest task number.
func labelWidth(tasks int) int { return len(strconv.Itoa(tasks - 1)) }

// inDirectory makes a relative path one from a directory.
func inDirectory(directory, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(directory, path)
}
