package run

import (
	"io"
	"os"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// inputSource is something that tasks read: grun's own standard input or a
// file, for all tasks, or for some.
type inputSource struct {
	reader io.ReadCloser
	all    bool
	ranks  []uint32 // if not all
}

// openInputs opens what the tasks are to read. name makes a path of a pattern.
func openInputs(mode streamMode, stdin io.Reader, tasks int, name func(pattern string, rank uint32) (string, error)) ([]inputSource, error) {
	switch mode.kind {
	case streamNone:
		return nil, nil
	case streamAll:
		return []inputSource{{reader: io.NopCloser(stdin), all: true}}, nil
	case streamTask:
		return []inputSource{{reader: io.NopCloser(stdin), ranks: []uint32{mode.task}}}, nil
	}
	var sources []inputSource
	byPath := map[string]int{}
	for rank := range uint32(tasks) {
		path, err := name(mode.pattern, rank)
		if err != nil {
			return nil, err
		}
		at, known := byPath[path]
		if !known {
			file, err := os.Open(path)
			if err != nil {
				closeInputs(sources)
				return nil, option.Fail(1, "Unable to open file %s for input: %w", path, console.Reason(err))
			}
			at = len(sources)
			byPath[path] = at
			sources = append(sources, inputSource{reader: file})
		}
		sources[at].ranks = append(sources[at].ranks, rank)
	}
	if len(sources) == 1 {
		sources[0].all, sources[0].ranks = true, nil
	}
	return sources, nil
}

func closeInputs(sources []inputSource) {
	for _, source := range sources {
		_ = source.reader.Close()
	}
}

// inputMode is what the nodes are told about standard input.
func (mode streamMode) inputMode() (step.InputMode, uint32) {
	switch mode.kind {
	case streamNone:
		return step.InputNone, 0
	case streamTask:
		return step.InputTask, mode.task
	}
	return step.InputAll, 0
}

// pump sends a source to its tasks until it ends. clientOf finds the node of a
// task. A node that takes no further input is skipped: its tasks have ended.
func (source inputSource) pump(clients []*step.Client, clientOf func(rank uint32) *step.Client) {
	defer source.reader.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := source.reader.Read(buffer)
		if n > 0 {
			if source.all {
				for _, client := range clients {
					_ = client.SendInput(0, true, buffer[:n])
				}
			}
			for _, rank := range source.ranks {
				_ = clientOf(rank).SendInput(rank, false, buffer[:n])
			}
		}
		if err != nil {
			break
		}
	}
	if source.all {
		for _, client := range clients {
			_ = client.EndInput(0, true)
		}
	}
	for _, rank := range source.ranks {
		_ = clientOf(rank).EndInput(rank, false)
	}
}
