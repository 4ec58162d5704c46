package dev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func requestID() string { return uuid.NewString() }

func (c *cluster) environmentFile() string { return filepath.Join(c.options.Directory, "env") }

// writeEnvironment writes a file to be sourced by a shell: PATH with the
// commands, where the controllers are, and where each node serves its owner.
func (c *cluster) writeEnvironment() error {
	text := fmt.Sprintf("export PATH=%s:\"$PATH\"\nexport GLEANER_CONTROLLER=%s\nexport GLEANER_NODED=%s\n",
		quoted(c.options.Binaries), quoted(strings.Join(c.targets(), ",")), quoted("unix://"+c.nodeSocket("%n")))
	return os.WriteFile(c.environmentFile(), []byte(text), 0o644)
}

// quoted is a word as a shell reads it back; plain words stay as they are.
func quoted(word string) string {
	plain := func(letter rune) bool {
		return letter < utf8.RuneSelf && (unicode.IsLetter(letter) || unicode.IsDigit(letter) || strings.ContainsRune("/._-:=,+@%", letter))
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// greet says that the cluster is ready, and what to type next.
func (c *cluster) greet() {
	gpus := "stand-in GPUs: device files that do nothing, guarded by the kernel as real ones are"
	if haveNVIDIA() {
		gpus = "the first node has this machine's NVIDIA GPUs, the others stand-ins"
	}
	fmt.Fprintf(c.out, `ready
%s, %s with %d CPUs, %d MB and %s each (%s)
Root's jobs are allowed here (allow_root_jobs): they run as uid 0 without capabilities.
In another terminal:
  . %s
  ginfo
  gsubmit --gpus=1 --wrap 'id; echo my GPU is $CUDA_VISIBLE_DEVICES'
  gqueue
Logs are in %s. Ctrl-C ends the cluster and every job on it.
`, counted(len(c.controllers), "controller"), counted(c.options.Nodes, "node"), c.options.CPUsPerNode, c.memoryMB, counted(c.options.GPUsPerNode, "GPU"), gpus, quoted(c.environmentFile()), c.options.Directory)
}

// counted is a number of things.
func counted(number int, what string) string {
	if number == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", number, what)
}

// endJobs cancels what runs and waits until the controller has heard that it
// is over, so that the next start in this directory finds no job in the air.
// It is a courtesy: what it misses is ended on the nodes themselves.
func (c *cluster) endJobs() {
	ctx, cancel := context.WithTimeout(context.Background(), endJobsDeadline)
	defer cancel()
	running := &pb.JobFilter{States: []pb.JobState{pb.JobState_JOB_STATE_RUNNING}, Completing: true}
	if n, err := c.count(ctx, running); err != nil || n == 0 {
		return
	}
	fmt.Fprintln(c.out, "ending the running jobs")
	if _, err := c.client.Cancel(ctx, &pb.CancelRequest{RequestId: requestID(), Filter: running}); err != nil {
		fmt.Fprintf(c.out, "cancel the running jobs: %v\n", err)
		return
	}
	for ctx.Err() == nil {
		if n, err := c.count(ctx, running); err != nil || n == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *cluster) count(ctx context.Context, filter *pb.JobFilter) (int, error) {
	stream, err := c.client.ListJobs(ctx, &pb.ListJobsRequest{Filter: filter})
	if err != nil {
		return 0, err
	}
	n := 0
	for {
		answer, err := stream.Recv()
		if err != nil {
			return n, ignoreEnd(err)
		}
		n += len(answer.Jobs)
	}
}
