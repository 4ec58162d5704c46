package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
)

// FactsWord is the first argument of a program that calls FactsMain.
const FactsWord = "gpu-facts"

const (
	// maxFacts bounds what is read of an answer: every process of a machine, with
	// room.
	maxFacts = 1 << 20
	// killPatience is how long a process that was killed is waited for: one in
	// the hands of a driver that hangs does not die.
	killPatience = time.Second
)

// FactsMain is what "PROGRAM gpu-facts ID…" runs: Parking of these GPUs, written
// as JSON.
func FactsMain(ids []string, out io.Writer) error {
	source, err := AskNVML()
	if err != nil {
		return err
	}
	facts, err := source.Parking(ids)
	if err = errors.Join(err, source.Close()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(facts)
}

// AskFacts is Parking in a process of its own, which program and first
// arguments start: a driver that hangs keeps that one, and not the caller. ctx
// bounds it.
func AskFacts(ctx context.Context, command, ids []string) (cuda.Facts, error) {
	var said, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], ids...)...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &limited{to: &said, left: maxFacts}, &limited{to: &complaints, left: 1 << 10}, killPatience
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ended := make(chan error, 1)
	if err := cmd.Start(); err != nil {
		return cuda.Facts{}, fmt.Errorf("ask the NVIDIA driver about GPUs: %w", err)
	}
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			return DecodeFacts(said.Bytes(), ids)
		}
		if ctx.Err() == nil {
			if line, _, _ := strings.Cut(strings.TrimSpace(complaints.String()), "\n"); line != "" {
				err = errors.New(strings.TrimPrefix(line, "gnoded: "))
			}
			return cuda.Facts{}, fmt.Errorf("ask the NVIDIA driver about GPUs: %w", err)
		}
	case <-ctx.Done():
	}
	return cuda.Facts{}, fmt.Errorf("ask the NVIDIA driver about GPUs: %w: see whether nvidia-smi works", context.Cause(ctx))
}

// DecodeFacts reads what FactsMain wrote about these GPUs.
func DecodeFacts(data []byte, ids []string) (cuda.Facts, error) {
	var facts cuda.Facts
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&facts); err != nil {
		return cuda.Facts{}, fmt.Errorf("what was said about GPUs: %.200s", err.Error())
	}
	if len(facts.GPUs) != len(ids) {
		return cuda.Facts{}, fmt.Errorf("what was said about GPUs: it is about %d, not %d", len(facts.GPUs), len(ids))
	}
	for i, id := range ids {
		if facts.GPUs[i].UUID != id {
			return cuda.Facts{}, fmt.Errorf("what was said about GPUs: it is about %.80q, not %q", facts.GPUs[i].UUID, id)
		}
	}
	return facts, nil
}

// limited takes what is written, and keeps as much of it as may be.
type limited struct {
	to   *bytes.Buffer
	left int
}

func (l *limited) Write(data []byte) (int, error) {
	kept := data[:min(len(data), l.left)]
	l.left -= len(kept)
	l.to.Write(kept)
	return len(data), nil
}
